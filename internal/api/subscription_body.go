package api

import (
	"encoding/json"

	"github.com/eventhook/eventhook"
)

// SubscriptionCreate is a subscription to be created.
type SubscriptionCreate struct {
	Name          string   `json:"name" minLength:"1" maxLength:"200" example:"billing" doc:"Display name; need not be unique."`
	URL           string   `json:"url" minLength:"1" maxLength:"4096" example:"https://billing.example/hooks" doc:"Receiver of the events. The part after the host is treated as a secret: later responses show … instead. A PATCH with the URL as shown keeps the stored one."`
	EventTypes    []string `json:"event_types" minItems:"1" maxItems:"100" example:"[\"payment.*\"]" doc:"Event types to deliver: exact, prefix.* or *."`
	SigningSecret string   `json:"signing_secret,omitempty" maxLength:"512" writeOnly:"true" doc:"Secret (whsec_…) that signs deliveries; generated if omitted."`
	Validate      bool     `json:"validate,omitempty" doc:"Create the subscription only if the receiver answers a test event with 2xx."`
	SubscriptionFields
}

// SubscriptionPatch is a merge patch of a subscription.
type SubscriptionPatch struct {
	Name          string   `json:"name,omitempty" minLength:"1" maxLength:"200" doc:"Display name; need not be unique."`
	URL           string   `json:"url,omitempty" minLength:"1" maxLength:"4096" doc:"Receiver of the events. The URL as shown keeps the stored one. If scheme, host or port change, auth_header, auth and headers must be given again."`
	EventTypes    []string `json:"event_types,omitempty" minItems:"1" maxItems:"100" doc:"Event types to deliver: exact, prefix.* or *. Replaces the existing list."`
	Status        string   `json:"status,omitempty" enum:"active,paused,disabled" doc:"active: deliver; also enables a disabled subscription. paused: hold deliveries. disabled: create no deliveries until a user enables the subscription."`
	SigningSecret string   `json:"signing_secret,omitempty" maxLength:"512" writeOnly:"true" doc:"Replaces all secrets at once. Use rotate-secret to give receivers time."`
	SubscriptionFields
}

// SubscriptionFields are the members of a subscription that can be set on creation and
// by an update.
type SubscriptionFields struct {
	Filter               jsonObject        `json:"filter,omitempty" nullable:"true" example:"{\"body.amount\":{\"$gte\":10}}" doc:"Object from path (body.… for the data, or event.…) to a value, a list of values, or operators such as $gte. An update replaces the whole filter."`
	AuthHeader           string            `json:"auth_header,omitempty" nullable:"true" maxLength:"4096" example:"Bearer t0k" doc:"Value of the Authorization header of deliveries. Later responses show [redacted]; a PATCH with [redacted] keeps it, unless the destination changes."`
	Auth                 *eventhook.Auth   `json:"auth,omitempty" doc:"How the gateway authenticates to the receiver, instead of auth_header. Responses show [redacted] for its secrets. A PATCH changes the given members; with another type it replaces the whole object."`
	Headers              map[string]string `json:"headers,omitempty" example:"{\"X-Env\":\"prod\"}" doc:"Additional headers of deliveries. They are not secret: every key that can read the subscription sees them."`
	TargetLabels         []string          `json:"target_labels,omitempty" maxItems:"20" example:"[\"env:prod\"]" doc:"Labels of the agent that sends the deliveries: an agent must have all of them. Empty (default): the gateway sends."`
	Retry                DeliveryRetry     `json:"retry,omitzero" doc:"Retries of failed deliveries."`
	TimeoutSeconds       int               `json:"timeout_seconds,omitempty" minimum:"1" maximum:"60" doc:"Timeout of an attempt, including reading the response; default 30."`
	DisableAfterFailures *int              `json:"disable_after_failures,omitempty" minimum:"0" maximum:"1000" doc:"Number of consecutive dead deliveries after which the subscription is disabled; default 10. 0: never."`
	MaxInFlight          int               `json:"max_in_flight,omitempty" minimum:"1" maximum:"1000" doc:"Maximum number of concurrent deliveries per gateway instance; default 10. An instance starts with a few, and one subscription gets at most a sixth of outbound.dispatch.sends_at_once."`
	RatePerSecond        int               `json:"rate_per_second,omitempty" minimum:"0" maximum:"10000" doc:"Maximum deliveries per second across all instances; 0 (default): no limit."`
	Signatures           []string          `json:"signatures,omitempty" enum:"v1,v1a" maxItems:"2" doc:"Signature schemes. v1 (default): HMAC-SHA256 with the signing secret. v1a: Ed25519; see Get the public key of a subscription."`
	ScopeFilter          []string          `json:"scope_filter,omitempty" maxItems:"20" example:"[\"customer-42/*\"]" doc:"Patterns for the scope of events: exact, prefix/* or *. With patterns, only events with a matching scope are delivered."`
	Transform            *Transform        `json:"transform,omitempty" doc:"Makes the body of deliveries from the event as receivers get it. Not together with a format."`
	Format               string            `json:"format,omitempty" enum:"eventhook,cloudevents,slack,teams,pagerduty" doc:"Body of deliveries. eventhook (default): the event. cloudevents: CloudEvents 1.0, structured mode. slack, teams, pagerduty: the body that the incoming webhooks of these products accept."`
	HeaderPrefix         string            `json:"header_prefix,omitempty" maxLength:"40" example:"X-Acme" doc:"Replaces X-Eventhook at the beginning of the gateway's header names."`
	OrderedBy            *string           `json:"ordered_by,omitempty" nullable:"true" maxLength:"256" example:"data.customer_id" doc:"Path of the event as receivers get it. Deliveries with the same value at this path are sent one after another. null (default): no order."`
	Recovery             Recovery          `json:"recovery,omitzero" doc:"What happens to the deliveries that the receiver missed during an outage."`
	Tenants              []string          `json:"tenants,omitempty" maxItems:"1000" example:"[\"acme\"]" doc:"Only for operator subscriptions: slugs of the tenants whose events are delivered. Empty (default): of all tenants."`
}

// Recovery says what happens to the deliveries that a receiver missed during an outage.
type Recovery struct {
	Enabled     *bool `json:"enabled,omitempty" doc:"true (default): missed deliveries are sent when the receiver answers again."`
	MaxAgeHours int   `json:"max_age_hours,omitempty" minimum:"1" maximum:"336" doc:"Age up to which missed deliveries are sent; default 72."`
}

// DeliveryRetry defines the retries of failed deliveries.
type DeliveryRetry struct {
	MaxRetries        *int    `json:"max_retries,omitempty" minimum:"0" maximum:"10" doc:"Maximum number of retries; default 5. 0: no retries."`
	InitialDelayMS    int     `json:"initial_delay_ms,omitempty" minimum:"100" maximum:"60000" doc:"Delay before the first retry; default 1000."`
	BackoffMultiplier float64 `json:"backoff_multiplier,omitempty" minimum:"1" maximum:"10" doc:"Factor between the delays of consecutive retries; default 2."`
	MaxDelayMS        int     `json:"max_delay_ms,omitempty" minimum:"1000" maximum:"3600000" doc:"Maximum delay, at least the initial delay; default 60000."`
	ScheduleSeconds   []int   `json:"schedule_seconds,omitempty" maxItems:"10" example:"[30,120,600]" doc:"Explicit delays in seconds. While set, the other delays are stored but not used."`
	Jitter            string  `json:"jitter,omitempty" enum:"some,full" doc:"How retries are spread. some (default): up to a tenth later than the delay. full: at a random time within the delay."`
	TerminalStatuses  []int   `json:"terminal_statuses,omitempty" maxItems:"50" example:"[400,401,403,404,422]" doc:"Response statuses after which a delivery is dead without a retry."`
}

// fieldsOfSubscription returns the fields of a stored subscription as they were given,
// with secrets redacted.
func fieldsOfSubscription(x eventhook.Subscription) SubscriptionFields {
	return SubscriptionFields{
		Filter: jsonObject(x.Filter), AuthHeader: shownSecret(x.AuthHeader), Auth: shownAuth(x.Auth), Headers: x.Headers,
		TargetLabels: x.TargetLabels, Retry: DeliveryRetry(x.Retry),
		TimeoutSeconds: x.TimeoutSeconds, DisableAfterFailures: x.DisableAfterFailures, MaxInFlight: x.MaxInFlight, RatePerSecond: x.RatePerSecond,
		Signatures: x.Signatures, ScopeFilter: x.ScopeFilter, Transform: (*Transform)(x.Transform), Format: x.Format,
		HeaderPrefix: x.HeaderPrefix,
		OrderedBy:    optional(x.OrderedBy), Recovery: Recovery(x.Recovery), Tenants: x.Tenants,
	}
}

// over returns x with these fields. The redacted auth_header keeps the stored one.
func (f SubscriptionFields) over(x eventhook.Subscription) eventhook.Subscription {
	x.Filter = json.RawMessage(f.Filter)
	if f.AuthHeader != eventhook.Redacted || x.AuthHeader.IsZero() {
		x.AuthHeader = eventhook.NewSecret(f.AuthHeader)
	}
	x.Auth = keptAuth(f.Auth, x.Auth)
	x.SubscriptionSettings = eventhook.SubscriptionSettings{
		Headers: f.Headers, TargetLabels: f.TargetLabels, Retry: eventhook.RetryPolicy(f.Retry), TimeoutSeconds: f.TimeoutSeconds,
		DisableAfterFailures: f.DisableAfterFailures, MaxInFlight: f.MaxInFlight, RatePerSecond: f.RatePerSecond, Signatures: f.Signatures,
		ScopeFilter: f.ScopeFilter, Transform: (*eventhook.Transform)(f.Transform), Format: f.Format, HeaderPrefix: f.HeaderPrefix,
		OrderedBy: valueOf(f.OrderedBy), Recovery: eventhook.RecoveryPolicy(f.Recovery), Tenants: f.Tenants,
	}
	return x
}

// over returns x with the members of this request. Missing secrets are generated.
func (b SubscriptionCreate) over(x eventhook.Subscription) eventhook.Subscription {
	x = b.SubscriptionFields.over(x)
	x.Name, x.URL, x.EventTypes = b.Name, eventhook.NewSecret(b.URL), b.EventTypes
	if b.SigningSecret != "" {
		x.Signing = []eventhook.SigningSecret{{Secret: eventhook.NewSecret(b.SigningSecret)}}
	}
	return x.WithGeneratedSecrets()
}

// over returns x with the members of this patch. The URL as shown in responses keeps
// the stored one.
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
		x.Status, x.DisabledReason, x.DisabledBy = to, "", ""
	}
	if x.SecretsLost && (b.URL == "" || b.SigningSecret == "") {
		return x // generating new secrets here would surprise the caller
	}
	x.SecretsLost = false
	return x.WithGeneratedSecrets()
}

// patchedSubscription returns the subscription after a patch.
func (s *server) patchedSubscription(have eventhook.Subscription, patch document[SubscriptionPatch]) (eventhook.Subscription, error) {
	current := SubscriptionPatch{have.Name, shownURL(have.URL), have.EventTypes, string(have.Status), "", fieldsOfSubscription(have)}
	current.Headers = respellHeaders(have.Headers, patch.raw)
	if changesAuthType(current.Auth, patch.raw) {
		current.Auth = nil
	}
	body, shape, err := patch.mergePatched(s, current, "filter")
	if err != nil {
		return have, err
	}
	want := body.over(have)
	rules := s.checkSubscription(want, have)
	rules.Merge("", secretsToRepeat(have, want, patch.raw))
	if want.SecretsLost && (body.URL != "" || body.SigningSecret != "" || body.AuthHeader != "" || body.Auth != nil) {
		rules.Add("body", "the subscription's secrets cannot be decrypted, because their encryption key is missing: set url and signing_secret together, and auth_header or auth if the receiver needs one")
	}
	if err := combinedError(shape, rules); err != nil {
		return have, err
	}
	return want, checkStatusChange(have.Status, want.Status)
}

// checkStatusChange returns an error if a caller may not change a status to another.
func checkStatusChange(from, to eventhook.SubscriptionStatus) error {
	switch {
	case from == to:
		return nil
	case from == eventhook.SubscriptionDisabled && to == eventhook.SubscriptionPaused:
		return errNotEnabled
	case to == eventhook.SubscriptionActive || to == eventhook.SubscriptionPaused || to == eventhook.SubscriptionDisabled:
		return nil
	}
	return invalid("body.status", "must be active, paused or disabled")
}

// errNotEnabled is the refusal of operations on a disabled subscription.
var errNotEnabled = &eventhook.Error{Kind: eventhook.KindConflict,
	Message: `The subscription is disabled; disabled_reason says why. Enable it first: PATCH {"status":"active"}, or eventhook subscription enable.`}
