package api

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/eventhook/eventhook"
)

// Tester sends test events to subscriptions, regardless of their event types.
type Tester interface {
	// Validate sends a test event to a subscription that need not be stored. It stores
	// nothing.
	Validate(ctx context.Context, s eventhook.Subscription) eventhook.Attempt
	// Test sends a test event and stores the event and its delivery. A failed attempt
	// is not an error.
	Test(ctx context.Context, s eventhook.Subscription, by eventhook.Actor) (eventhook.Delivery, eventhook.Attempt, error)
	// Preview returns the headers and the body of the request of a delivery, without
	// signatures and credentials. It sends nothing.
	Preview(ctx context.Context, s eventhook.Subscription, d eventhook.Delivery) (http.Header, []byte, error)
}

func (s *server) registerSubscriptionActions(api huma.API) {
	action := func(id, verb, summary, about string) operation {
		op := subscriptionOperation(id, http.MethodPost, "/{id}/"+verb, summary, eventhook.ScopeManage)
		op.about = about
		return op
	}
	register(s, api, action("pause-subscription", "pause", "Pause a subscription",
		"While paused, deliveries are created and held, up to the retention period of deliveries, and sent after resume. 409 if the subscription is disabled."), s.pauseSubscription)
	register(s, api, action("resume-subscription", "resume", "Resume a subscription",
		"Sends the deliveries held while the subscription was paused and continues with new ones. 409 if the subscription is disabled."), s.resumeSubscription)
	register(s, api, action("enable-subscription", "enable", "Enable a subscription",
		"Makes a disabled or paused subscription active. Deliveries that were waiting or held are sent. If failures had disabled the subscription, the oldest missed delivery is sent at once; as soon as the receiver answers with 2xx, the deliveries that became dead in the outage are sent, too."), s.enableSubscription)
	register(s, api, action("disable-subscription", "disable", "Disable a subscription",
		"Creates no deliveries until the subscription is enabled; waiting deliveries are kept. Ends the probes of a subscription that failures have disabled."), s.disableSubscription)
	test := action("test-subscription", "test", "Test a subscription by sending a test event",
		"Sends one system.webhook_test event to this subscription only, regardless of its status and event types, and returns the result of the attempt. The delivery is stored.")
	test.class = trials
	register(s, api, test, s.testSubscription)
	rotate := action("rotate-subscription-secret", "rotate-secret", "Rotate the signing secret of a subscription",
		"The previous secret also signs during the grace period, so that receivers can switch. At most two secrets sign at a time: a rotation during a rotation ends the older secret at once. The response contains the new secret, which is returned only once.")
	rotate.skipsShape = true
	register(s, api, rotate, s.rotateSecret)
	key := subscriptionOperation("get-subscription-public-key", http.MethodGet, "/{id}/public-key", "Get the public key of a subscription", eventhook.ScopeRead)
	key.about = "The key verifies v1a signatures. 404 if the subscription does not sign with v1a."
	register(s, api, key, s.getPublicKey)
}

// applyToSubscription changes the current version of a subscription.
func (s *server) applyToSubscription(ctx context.Context, by caller, in *SubscriptionPath, change func(*eventhook.Subscription) error) (*subscriptionAnswer, error) {
	id, err := eventhook.ParseID[eventhook.Subscription](in.ID)
	if err != nil {
		return nil, err
	}
	x, err := s.Subscriptions.UpdateSubscription(ctx, by.actor(), by.tenant, id, 0, func(have eventhook.Subscription) (eventhook.Subscription, error) {
		if !by.sees(have) {
			return have, eventhook.NotFound("subscription")
		}
		err := change(&have)
		return have, err
	})
	if err != nil {
		return nil, err
	}
	return s.answerSubscription(ctx, by, x)
}

// setStatus returns a change to a status.
func setStatus(status eventhook.SubscriptionStatus) func(*eventhook.Subscription) error {
	return func(x *eventhook.Subscription) error {
		x.Status, x.DisabledReason, x.DisabledBy = status, "", ""
		return nil
	}
}

// requireEnabled returns a change that fails with errNotEnabled if the subscription is
// disabled.
func requireEnabled(change func(*eventhook.Subscription) error) func(*eventhook.Subscription) error {
	return func(x *eventhook.Subscription) error {
		if x.Status == eventhook.SubscriptionDisabled {
			return errNotEnabled
		}
		return change(x)
	}
}

func (s *server) pauseSubscription(ctx context.Context, by caller, in *SubscriptionPath) (*subscriptionAnswer, error) {
	return s.applyToSubscription(ctx, by, in, requireEnabled(setStatus(eventhook.SubscriptionPaused)))
}

func (s *server) resumeSubscription(ctx context.Context, by caller, in *SubscriptionPath) (*subscriptionAnswer, error) {
	return s.applyToSubscription(ctx, by, in, requireEnabled(setStatus(eventhook.SubscriptionActive)))
}

func (s *server) enableSubscription(ctx context.Context, by caller, in *SubscriptionPath) (*subscriptionAnswer, error) {
	return s.applyToSubscription(ctx, by, in, setStatus(eventhook.SubscriptionActive))
}

func (s *server) disableSubscription(ctx context.Context, by caller, in *SubscriptionPath) (*subscriptionAnswer, error) {
	return s.applyToSubscription(ctx, by, in, setStatus(eventhook.SubscriptionDisabled))
}

// SubscriptionTested is the outcome of a test event.
type SubscriptionTested struct {
	Delivered  bool   `json:"delivered" doc:"Whether the receiver answered with 2xx."`
	EventID    string `json:"event_id" format:"uuid" doc:"The test event."`
	DeliveryID string `json:"delivery_id" format:"uuid" doc:"The stored delivery of the test event."`
	DeliveryAttempt
}

type testAnswer struct{ Body SubscriptionTested }

// Why the gateway cannot send to a subscription.
var (
	errSentByAgents = &eventhook.Error{Kind: eventhook.KindConflict, Message: "An agent sends to this subscription, so that the gateway cannot test it."}
	errLost         = &eventhook.Error{Kind: eventhook.KindConflict, Message: "The subscription's URL and secrets cannot be decrypted, because their encryption key is missing; set them again first."}
)

func (s *server) testSubscription(ctx context.Context, by caller, in *SubscriptionPath) (*testAnswer, error) {
	x, err := s.findSubscription(ctx, by, in)
	switch {
	case err != nil:
		return nil, err
	case x.IsForAgents():
		return nil, errSentByAgents
	case x.SecretsLost:
		return nil, errLost
	}
	d, a, err := s.Receivers.Tester.Test(ctx, x, by.actor())
	if err != nil {
		return nil, err
	}
	return &testAnswer{SubscriptionTested{a.Succeeded(), d.EventID.String(), d.ID.String(), viewAttempt(a)}}, nil
}

// SecretRotation is the request of a rotation.
type SecretRotation struct {
	GraceSeconds  *int   `json:"grace_seconds,omitempty" minimum:"0" maximum:"604800" default:"86400" doc:"Seconds during which the previous secret also signs; default 86400 (one day). 0: the previous secret stops at once."`
	SigningSecret string `json:"signing_secret,omitempty" maxLength:"512" writeOnly:"true" doc:"The new secret; generated if omitted."`
}

// SecretRotated is the outcome of a rotation.
type SecretRotated struct {
	SigningSecret       string     `json:"signing_secret" doc:"The new secret. It is returned only once."`
	PreviousExpiresAt   *time.Time `json:"previous_expires_at" doc:"Until when the previous secret also signs; null if it stopped at once."`
	SigningSecretsCount int        `json:"signing_secrets_count" doc:"Number of secrets that sign now: 2 during the grace period, else 1."`
	Warnings            []string   `json:"warnings" doc:"Settings that are allowed but not recommended."`
}

type rotateRequest struct {
	SubscriptionPath
	Body *document[SecretRotation]
}

type rotateAnswer struct {
	ETag string `header:"ETag" doc:"Version of the subscription, for If-Match."`
	Body SecretRotated
}

func (s *server) rotateSecret(ctx context.Context, by caller, in *rotateRequest) (*rotateAnswer, error) {
	var body SecretRotation
	var shape, rules eventhook.Faults
	if in.Body != nil {
		body, shape = in.Body.read(s)
	}
	fresh := eventhook.NewSecret(body.SigningSecret)
	if fresh.IsZero() {
		fresh = eventhook.NewSigningSecret()
	}
	if wrong := eventhook.CheckSigningSecret(fresh.Reveal()); wrong != "" {
		rules.Add("body.signing_secret", "%s", wrong)
	}
	if err := combinedError(shape, rules); err != nil {
		return nil, err
	}
	grace := eventhook.DefaultRotationGrace
	if body.GraceSeconds != nil {
		grace = time.Duration(*body.GraceSeconds) * time.Second
	}
	var rotated []eventhook.SigningSecret
	x, err := s.applyToSubscription(ctx, by, &in.SubscriptionPath, func(x *eventhook.Subscription) error {
		if x.SecretsLost {
			return errLost
		}
		if slices.ContainsFunc(x.Signing, func(have eventhook.SigningSecret) bool { return have.Secret.Equal(fresh) }) {
			return invalid("body.signing_secret", "is already in use; a rotation needs a new secret")
		}
		rotated = eventhook.RotateSigningSecret(x.Signing, fresh, s.Now(), grace)
		if grace == 0 { // also ends the secrets of an earlier rotation
			rotated = rotated[:1]
		}
		x.Signing = rotated
		return nil
	})
	if err != nil {
		return nil, err
	}
	out := &rotateAnswer{x.ETag, SecretRotated{SigningSecret: fresh.Reveal(), SigningSecretsCount: len(rotated), Warnings: secretWarnings(fresh)}}
	if len(rotated) > 1 {
		out.Body.PreviousExpiresAt = optionalUTC(rotated[1].ExpiresAt)
	}
	return out, nil
}

// PublicKey verifies v1a signatures of a subscription.
type PublicKey struct {
	PublicKey string `json:"public_key" example:"whpk_…" doc:"Public key: whpk_ followed by base64."`
	Algorithm string `json:"algorithm" enum:"ed25519" doc:"Signature algorithm."`
}

type publicKeyAnswer struct{ Body PublicKey }

var errNoPublicKey = &eventhook.Error{Kind: eventhook.KindNotFound,
	Message: `no such key: the subscription does not sign with v1a. PATCH it with {"signatures":["v1","v1a"]} first.`}

func (s *server) getPublicKey(ctx context.Context, by caller, in *SubscriptionPath) (*publicKeyAnswer, error) {
	x, err := s.findSubscription(ctx, by, in)
	switch {
	case err != nil:
		return nil, err
	case !x.IsSignedWith(eventhook.SignatureEd25519):
		return nil, errNoPublicKey
	case x.SecretsLost:
		return nil, errLost
	}
	return &publicKeyAnswer{PublicKey{eventhook.Ed25519PublicKey(x.Ed25519Seed), "ed25519"}}, nil
}
