package api

import (
	"encoding/json"

	"github.com/eventhook/eventhook"
)

// SubscriptionCreate is a subscription to be made.
type SubscriptionCreate struct {
	Name          string   `json:"name" minLength:"1" maxLength:"200" example:"billing" doc:"For people; several may have the same."`
	URL           string   `json:"url" minLength:"1" maxLength:"4096" example:"https://billing.example/hooks" doc:"Where its events are sent. Beyond its host it is a secret: later answers show … instead, which keeps it in a PATCH."`
	EventTypes    []string `json:"event_types" minItems:"1" maxItems:"100" example:"[\"payment.*\"]" doc:"Which events: exact, or prefix.*, or *."`
	SigningSecret string   `json:"signing_secret,omitempty" maxLength:"512" writeOnly:"true" doc:"whsec_…, with which what is sent is signed; made if not given."`
	Validate      bool     `json:"validate,omitempty" doc:"Make it only if a test event is answered with 2xx."`
	SubscriptionFields
}

// SubscriptionPatch is what shall change of a subscription.
type SubscriptionPatch struct {
	Name          string   `json:"name,omitempty" minLength:"1" maxLength:"200" doc:"For people; several may have the same."`
	URL           string   `json:"url,omitempty" minLength:"1" maxLength:"4096" doc:"Where its events are sent. As it is shown, it stays. Another scheme, host or port needs auth_header and headers again."`
	EventTypes    []string `json:"event_types,omitempty" minItems:"1" maxItems:"100" doc:"Which events: exact, or prefix.*, or *; all of them, in place of those it has."`
	Status        string   `json:"status,omitempty" enum:"active,paused,disabled" doc:"active also enables one that was disabled. Only the gateway disables."`
	SigningSecret string   `json:"signing_secret,omitempty" maxLength:"512" writeOnly:"true" doc:"In place of all that it has, at once; rotate-secret leaves receivers time."`
	SubscriptionFields
}

// SubscriptionFields are what a subscription is told when it is made, and may
// be told later.
type SubscriptionFields struct {
	Filter               jsonObject        `json:"filter,omitempty" example:"{\"body.amount\":{\"$gte\":10}}" doc:"From paths, body.… of the data or event.…, to a value, a list of values, or operators. It is replaced whole."`
	AuthHeader           string            `json:"auth_header,omitempty" maxLength:"4096" example:"Bearer t0k" doc:"Sent as Authorization. Later answers show [redacted], which keeps it, unless the destination changes."`
	Headers              map[string]string `json:"headers,omitempty" example:"{\"X-Env\":\"prod\"}" doc:"Sent, too. They are no secrets: everybody who may read the subscription sees them."`
	TargetLabels         []string          `json:"target_labels,omitempty" maxItems:"20" example:"[\"env:prod\"]" doc:"An agent that has all of these sends; without any the gateway does."`
	Retry                DeliveryRetry     `json:"retry,omitzero"`
	TimeoutSeconds       int               `json:"timeout_seconds,omitempty" minimum:"1" maximum:"60" doc:"For an attempt, its answer included; 30 by default."`
	DisableAfterFailures *int              `json:"disable_after_failures,omitempty" minimum:"0" maximum:"1000" doc:"After so many deliveries dead in a row it is disabled; 10 by default, 0: never."`
	MaxInFlight          int               `json:"max_in_flight,omitempty" minimum:"1" maximum:"1000" doc:"How many each instance sends it at once, at most: it begins with a few, and a sixth of outbound.dispatch.sends_at_once is the most for one subscription; 10 by default."`
	RatePerSecond        int               `json:"rate_per_second,omitempty" minimum:"0" maximum:"10000" doc:"How many all instances send it in a second; 0, the default: no limit."`
	Signatures           []string          `json:"signatures,omitempty" enum:"v1,v1a" maxItems:"2" doc:"v1, the default: HMAC-SHA256 with the signing secret. v1a: ed25519, whose public key is at …/public-key."`
}

// DeliveryRetry says when failed deliveries are tried again.
type DeliveryRetry struct {
	MaxRetries        *int    `json:"max_retries,omitempty" minimum:"0" maximum:"10" doc:"5 by default; 0: never."`
	InitialDelayMS    int     `json:"initial_delay_ms,omitempty" minimum:"100" maximum:"60000" doc:"Before the first retry; 1000 by default."`
	BackoffMultiplier float64 `json:"backoff_multiplier,omitempty" minimum:"1" maximum:"10" doc:"Of the delay from one retry to the next; 2 by default."`
	MaxDelayMS        int     `json:"max_delay_ms,omitempty" minimum:"1000" maximum:"3600000" doc:"The longest delay, not less than the initial one; 60000 by default."`
	ScheduleSeconds   []int   `json:"schedule_seconds,omitempty" maxItems:"10" example:"[30,120,600]" doc:"The delays one by one; while it is there, the other delays are kept and do not count."`
	Jitter            string  `json:"jitter,omitempty" enum:"some,full" doc:"How retries are spread: some, the default, up to a tenth later; full, at any moment until then."`
}

// fieldsOfSubscription are a stored one's, as they were given.
func fieldsOfSubscription(x eventhook.Subscription) SubscriptionFields {
	return SubscriptionFields{
		Filter: jsonObject(x.Filter), AuthHeader: shownSecret(x.AuthHeader), Headers: x.Headers, TargetLabels: x.TargetLabels, Retry: DeliveryRetry(x.Retry),
		TimeoutSeconds: x.TimeoutSeconds, DisableAfterFailures: x.DisableAfterFailures, MaxInFlight: x.MaxInFlight, RatePerSecond: x.RatePerSecond,
		Signatures: x.Signatures,
	}
}

// over is a subscription with these fields instead of its own. It keeps an
// Authorization header that is written as it is shown.
func (f SubscriptionFields) over(x eventhook.Subscription) eventhook.Subscription {
	x.Filter = json.RawMessage(f.Filter)
	if f.AuthHeader != eventhook.Redacted || x.AuthHeader.IsZero() {
		x.AuthHeader = eventhook.NewSecret(f.AuthHeader)
	}
	x.SubscriptionSettings = eventhook.SubscriptionSettings{
		Headers: f.Headers, TargetLabels: f.TargetLabels, Retry: eventhook.RetryPolicy(f.Retry), TimeoutSeconds: f.TimeoutSeconds,
		DisableAfterFailures: f.DisableAfterFailures, MaxInFlight: f.MaxInFlight, RatePerSecond: f.RatePerSecond, Signatures: f.Signatures,
	}
	return x
}

// over is a new subscription of this body, with the secrets made that it does
// not give.
func (b SubscriptionCreate) over(x eventhook.Subscription) eventhook.Subscription {
	x = b.SubscriptionFields.over(x)
	x.Name, x.URL, x.EventTypes = b.Name, eventhook.NewSecret(b.URL), b.EventTypes
	if b.SigningSecret != "" {
		x.Signing = []eventhook.SigningSecret{{Secret: eventhook.NewSecret(b.SigningSecret)}}
	}
	return x.WithGeneratedSecrets()
}

// over is a stored subscription with what this body says. It keeps a URL that
// is written as it is shown.
func (b SubscriptionPatch) over(x eventhook.Subscription) eventhook.Subscription {
	if b.URL != shownURL(x.URL) || x.URL.IsZero() {
		x.URL = eventhook.NewSecret(b.URL)
	}
	x = b.SubscriptionFields.over(x)
	x.Name, x.EventTypes = b.Name, b.EventTypes
	if b.SigningSecret != "" {
		x.Signing = []eventhook.SigningSecret{{Secret: eventhook.NewSecret(b.SigningSecret)}}
	}
	if to := eventhook.SubscriptionStatus(b.Status); to != x.Status {
		x.Status, x.DisabledReason = to, ""
	}
	if x.SecretsLost && (b.URL == "" || b.SigningSecret == "") {
		return x // and not made anew without a word
	}
	x.SecretsLost = false
	return x.WithGeneratedSecrets()
}

// patchedSubscription is what a subscription becomes by a patch.
func (s *server) patchedSubscription(have eventhook.Subscription, patch document[SubscriptionPatch]) (eventhook.Subscription, error) {
	current := SubscriptionPatch{have.Name, shownURL(have.URL), have.EventTypes, string(have.Status), "", fieldsOfSubscription(have)}
	current.Headers = respelled(have.Headers, patch.raw)
	body, shape, err := patch.patched(s, current, "filter")
	if err != nil {
		return have, err
	}
	want := body.over(have)
	rules := s.checkSubscription(want, have)
	rules.Merge("", namedAgain(have, want, patch.raw))
	if want.SecretsLost && (body.URL != "" || body.SigningSecret != "" || body.AuthHeader != "") {
		rules.Add("body", "the subscription's secrets are lost with the key that sealed them: give url and signing_secret together, and auth_header if there shall be one")
	}
	if err := together(shape, rules); err != nil {
		return have, err
	}
	return want, checkTurn(have.Status, want.Status)
}

// checkTurn says whether a person may turn one status into another.
func checkTurn(from, to eventhook.SubscriptionStatus) error {
	switch {
	case from == to:
		return nil
	case from == eventhook.SubscriptionDisabled && to == eventhook.SubscriptionPaused:
		return errNotEnabled
	case to == eventhook.SubscriptionActive || to == eventhook.SubscriptionPaused:
		return nil
	case to == eventhook.SubscriptionDisabled:
		return invalid("body.status", "only the gateway disables: pause it, or delete it")
	}
	return invalid("body.status", "must be active or paused")
}

// errNotEnabled answers who would have a disabled subscription do something.
var errNotEnabled = &eventhook.Error{Kind: eventhook.KindConflict,
	Message: `The subscription is disabled, and disabled_reason says why. Enable it first: PATCH {"status":"active"}, or eventhook subscription enable.`}
