package api

import (
	"cmp"
	"net/url"
	"time"

	"github.com/eventhook/eventhook"
)

// Subscription is a subscription in responses: without secrets, and with defaults in
// place of omitted settings.
type Subscription struct {
	ID                   string            `json:"id" format:"uuid"`
	IsOperator           bool              `json:"is_operator,omitempty" doc:"True for an operator subscription, which receives events of all tenants or of those in tenants."`
	Tenants              []string          `json:"tenants,omitempty" doc:"Of an operator subscription: slugs of the tenants whose events it receives; absent if it receives events of all tenants."`
	Name                 string            `json:"name" doc:"Display name."`
	Status               string            `json:"status" enum:"active,paused,disabled" doc:"active: events are delivered. paused: deliveries are held until the subscription is resumed. disabled: no deliveries are created, unless failures disabled the subscription: then they are held."`
	DisabledReason       *string           `json:"disabled_reason" doc:"Why the subscription is disabled; null if it is not."`
	DisabledBy           *string           `json:"disabled_by" doc:"What disabled the subscription; null if it is not disabled. failures: too many consecutive deliveries were dead; new deliveries are held and the receiver is probed. gone: the receiver answered 410. user: a user disabled it. tenant: the tenant was closed."`
	URL                  string            `json:"url" example:"https://billing.example/…" doc:"Receiver of the events. The part after the host is secret and shown as …."`
	EventTypes           []string          `json:"event_types" doc:"Event types to deliver: exact, prefix.* or *."`
	Filter               jsonObject        `json:"filter,omitempty" doc:"Conditions on the event, by path; absent if none."`
	AuthHeader           *string           `json:"auth_header" doc:"[redacted] if set, else null."`
	Auth                 *eventhook.Auth   `json:"auth,omitempty" doc:"How the gateway authenticates to the receiver, with [redacted] for the secrets; absent if none."`
	Headers              map[string]string `json:"headers" doc:"Additional headers of deliveries."`
	TargetLabels         []string          `json:"target_labels" doc:"Empty if the gateway sends the deliveries."`
	Retry                DeliveryRetry     `json:"retry" doc:"Retries of failed deliveries."`
	TimeoutSeconds       int               `json:"timeout_seconds" doc:"Timeout of an attempt, including reading the response."`
	DisableAfterFailures int               `json:"disable_after_failures" doc:"Number of consecutive dead deliveries after which the subscription is disabled. 0: never."`
	MaxInFlight          int               `json:"max_in_flight" doc:"Maximum number of concurrent deliveries per gateway instance."`
	RatePerSecond        int               `json:"rate_per_second" doc:"0: no limit."`
	Signatures           []string          `json:"signatures" doc:"Signature schemes of deliveries: v1 (HMAC-SHA256), v1a (Ed25519)."`
	ScopeFilter          []string          `json:"scope_filter" doc:"Patterns for the scope of events. Empty: every event matches."`
	Transform            *Transform        `json:"transform,omitempty" doc:"Makes the body of deliveries; absent if none."`
	Format               string            `json:"format" enum:"eventhook,cloudevents,slack,teams,pagerduty" doc:"Body of deliveries."`
	HeaderPrefix         string            `json:"header_prefix" doc:"Beginning of the gateway's header names."`
	OrderedBy            *string           `json:"ordered_by" doc:"Path of the event whose value orders deliveries; null: no order."`
	Circuit              *Circuit          `json:"circuit,omitempty" doc:"The circuit breaker, for all instances together; absent in lists."`
	MissedCount          *int              `json:"missed_count,omitempty" maximum:"10000" doc:"Deliveries that an outage has held or killed and that are not sent yet; counted up to 10 000. 0 without an outage; absent in lists."`
	Recovery             RecoveryState     `json:"recovery" doc:"What happens to the deliveries that the receiver missed during an outage."`
	SigningSecretsCount  int               `json:"signing_secrets_count" doc:"Number of secrets that sign; more than one during a rotation."`
	RotationEndsAt       *time.Time        `json:"rotation_ends_at" doc:"When the rotation ends, after which only the newest secret signs; null without a rotation."`
	SecretsLost          bool              `json:"secrets_lost,omitempty" doc:"True if URL and secrets cannot be decrypted because the encryption key is missing. Nothing is sent until they are set again or the key is restored."`
	Warnings             []string          `json:"warnings" doc:"Settings that are allowed but not recommended."`
	Version              int64             `json:"version" doc:"Increases with every change and is used as the ETag."`
	CreatedAt            time.Time         `json:"created_at"`
	UpdatedAt            time.Time         `json:"updated_at"`
}

// SubscriptionCreated is the response to the creation of a subscription.
type SubscriptionCreated struct {
	Subscription
	SigningSecret string `json:"signing_secret" example:"whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD" doc:"Secret with which receivers verify deliveries. It is returned only once."`
}

func (s *server) viewSubscription(x eventhook.Subscription) Subscription {
	signing := signingAt(x.Signing, s.Now())
	v := Subscription{
		ID: x.ID.String(), IsOperator: x.IsOperator(), Tenants: x.Tenants, Name: x.Name, Status: string(x.Status),
		DisabledReason: optional(x.DisabledReason), DisabledBy: optional(string(x.DisabledBy)), URL: shownURL(x.URL),
		EventTypes: list(x.EventTypes), Filter: jsonObject(x.Filter), AuthHeader: optional(shownSecret(x.AuthHeader)),
		Auth: shownAuth(x.Auth), Headers: x.Headers,
		TargetLabels: list(x.TargetLabels), Retry: viewDeliveryRetry(x.Retry), TimeoutSeconds: int(x.Timeout() / time.Second),
		DisableAfterFailures: x.FailuresToDisable(), MaxInFlight: x.InFlight(), RatePerSecond: x.RatePerSecond,
		Signatures: orElse(x.Signatures, []string{eventhook.SignatureHMAC}), ScopeFilter: list(x.ScopeFilter),
		Transform: (*Transform)(x.Transform),
		Format:    cmp.Or(x.Format, eventhook.FormatEventhook), HeaderPrefix: cmp.Or(x.HeaderPrefix, eventhook.DefaultHeaderPrefix),
		OrderedBy:           optional(x.OrderedBy),
		Recovery:            RecoveryState{Recovery: Recovery{new(x.Recovery.IsEnabled()), int(x.Recovery.MaxAge() / time.Hour)}},
		SigningSecretsCount: len(signing), SecretsLost: x.SecretsLost,
		Warnings: warningsOf(x), Version: x.Version, CreatedAt: utc(x.CreatedAt), UpdatedAt: utc(x.UpdatedAt),
	}
	if v.Headers == nil {
		v.Headers = map[string]string{}
	}
	for _, old := range signing {
		if old.ExpiresAt != nil && (v.RotationEndsAt == nil || old.ExpiresAt.After(*v.RotationEndsAt)) {
			v.RotationEndsAt = optionalUTC(old.ExpiresAt)
		}
	}
	return v
}

func viewDeliveryRetry(p eventhook.RetryPolicy) DeliveryRetry {
	if len(p.ScheduleSeconds) == 0 { // with a schedule, the other fields are not used: no defaults
		p = p.WithDefaults(eventhook.DeliveryRetry)
	}
	p.Jitter = cmp.Or(p.Jitter, eventhook.JitterSome)
	return DeliveryRetry(p)
}

func warningsOf(x eventhook.Subscription) []string {
	warnings := []string{}
	if _, warning := eventhook.CheckSubscriptionURL(x.URL.Reveal()); warning != "" {
		warnings = append(warnings, "url "+warning)
	}
	if isPlainHTTP(tokenURL(x)) {
		warnings = append(warnings, "auth.token_url is not encrypted: anyone on the network path can read the client_secret; use https")
	}
	if len(x.Signing) > 0 {
		warnings = append(warnings, secretWarnings(x.Signing[0].Secret)...)
	}
	if x.Format == eventhook.FormatPagerDuty && x.AuthHeader.IsZero() {
		warnings = append(warnings, "The format pagerduty has no routing key: set auth_header to the integration key of the service. Until then, PagerDuty accepts only events whose data has a routing_key.")
	}
	return warnings
}

// secretWarnings returns the warnings about a signing secret.
func secretWarnings(secret eventhook.Secret) []string {
	if warning := eventhook.SigningSecretWarning(secret.Reveal()); warning != "" {
		return []string{warning}
	}
	return []string{}
}

// shownSecret returns eventhook.Redacted, or "" for an empty secret.
func shownSecret(s eventhook.Secret) string {
	if s.IsZero() {
		return ""
	}
	return eventhook.Redacted
}

// hidden replaces the secret part of a URL.
const hidden = "…"

// shownURL returns a URL without the part after the host, which is secret: the complete
// URL is often all that is needed to send to the receiver. It returns "" if the URL
// cannot be decrypted.
func shownURL(secret eventhook.Secret) string {
	u, err := url.Parse(secret.Reveal())
	if err != nil {
		return hidden
	}
	shown := url.URL{Scheme: u.Scheme, Host: u.Host}
	if shown.Path = u.Path; len(u.Path) > len("/") || u.RawQuery != "" || u.Fragment != "" {
		return shown.Scheme + "://" + shown.Host + "/" + hidden
	}
	return shown.String()
}

// signingAt returns the secrets that have not expired at a time.
func signingAt(all []eventhook.SigningSecret, now time.Time) (list []eventhook.SigningSecret) {
	for _, one := range all {
		if one.ExpiresAt == nil || now.Before(*one.ExpiresAt) {
			list = append(list, one)
		}
	}
	return list
}
