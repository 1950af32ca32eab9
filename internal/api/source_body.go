package api

import (
	"slices"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/verify"
)

// SourceCreate is a source to be created.
type SourceCreate struct {
	Slug string `json:"slug" minLength:"1" maxLength:"63" pattern:"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$" patternDescription:"1 to 63 lower-case letters, digits and inner hyphens" example:"github" doc:"Identifies the source in URLs. It cannot be changed."`
	SourceFields
}

// SourcePatch is a merge patch of a source.
type SourcePatch struct {
	Slug string `json:"slug,omitempty" doc:"Must equal the current slug, which cannot be changed."`
	SourceFields
}

// SourceFields are the members of a source that can be set on creation and by an
// update.
type SourceFields struct {
	Name                  string            `json:"name,omitempty" maxLength:"200" doc:"Display name; default the slug."`
	Description           string            `json:"description,omitempty" maxLength:"2000" nullable:"true" example:"Pushes of the payments team's repositories" doc:"Free text for users."`
	IsEnabled             *bool             `json:"is_enabled,omitempty" doc:"Whether the source accepts webhooks; default true."`
	Provider              string            `json:"provider,omitempty" nullable:"true" example:"github" doc:"Id of a provider preset (see List providers), which defines verification, idempotency key and event type."`
	Scheme                string            `json:"scheme,omitempty" nullable:"true" doc:"Verification scheme of the provider; default the provider's first scheme."`
	Secrets               []string          `json:"secrets,omitempty" maxItems:"16" writeOnly:"true" doc:"Accepted secrets; set the new and the old one during a rotation. Secrets are never returned."`
	PublicKeys            []string          `json:"public_keys,omitempty" maxItems:"16" doc:"Public keys as PEM, JWK or in the provider's own format."`
	Options               map[string]string `json:"options,omitempty" doc:"Provider-specific options by name; List providers describes them."`
	ToleranceSeconds      *int              `json:"tolerance_seconds,omitempty" nullable:"true" minimum:"0" maximum:"1000000000" doc:"Allowed difference between a signed timestamp and the time of receipt, in seconds; default the provider's. 0: timestamps are not checked."`
	Verifier              *Verifier         `json:"verifier,omitempty" doc:"Custom verification, instead of a provider."`
	IdempotencyKeyPaths   []string          `json:"idempotency_key_paths,omitempty" maxItems:"20" example:"[\"header.x-request-id\",\"body.id\"]" doc:"Where to find the idempotency key: the first path that exists wins; default the provider's paths. Without a path there is no deduplication."`
	EventTypePaths        []string          `json:"event_type_paths,omitempty" maxItems:"20" example:"[\"header.x-topic\"]" doc:"Where to find the event type: the first path that exists wins; default the provider's paths. Common headers and members are tried last."`
	RequireIdempotencyKey bool              `json:"require_idempotency_key,omitempty" doc:"Refuse requests without an idempotency key (400)."`
	RateLimit             RateLimit         `json:"rate_limit,omitzero" doc:"Limits of requests, over all gateway instances together within about 10 %. They apply before verification."`
	Retry                 RetryPolicy       `json:"retry,omitzero" doc:"Retries of failed events."`
	AllowedIPRanges       []string          `json:"allowed_ip_ranges,omitempty" maxItems:"1000" example:"[\"192.0.2.0/24\"]" doc:"CIDRs of allowed senders; default all."`
	MaxBodyBytes          int               `json:"max_body_bytes,omitempty" minimum:"0" maximum:"33554432" doc:"Maximum body size in bytes; larger requests are refused (413). 0: the default, 1048576."`
	ContentTypes          []string          `json:"content_types,omitempty" maxItems:"50" example:"[\"application/json\"]" doc:"Accepted media types; default all."`
	Response              *SourceReply      `json:"response,omitempty" doc:"Response to accepted requests, for providers that check the response."`
	Consume               *Consume          `json:"consume,omitempty" doc:"Where the source consumes messages of a broker, instead of receiving webhooks. Without it, or with null, the source receives webhooks. A secret that is [redacted] keeps its stored value."`
	ReplayProtection      string            `json:"replay_protection,omitempty" enum:"body,off" doc:"body: a request with the same signed bytes as an accepted one is a duplicate, whatever its headers say. Default: the provider's setting, or off with a custom verifier."`
}

// RateLimit limits the requests to a source over all instances. It applies before
// verification.
type RateLimit struct {
	RequestsPerSecond int `json:"requests_per_second,omitempty" minimum:"0" maximum:"1000000" doc:"0: the default, 100."`
	RequestsPerMinute int `json:"requests_per_minute,omitempty" minimum:"0" maximum:"60000000" doc:"0: the default, 1000."`
	BurstSize         int `json:"burst_size,omitempty" minimum:"0" maximum:"1000000" doc:"0: the default, 50."`
}

// RetryPolicy defines the retries of failed work.
type RetryPolicy struct {
	MaxRetries        *int    `json:"max_retries,omitempty" minimum:"0" maximum:"25" doc:"Maximum number of retries; default 3. 0: no retries."`
	InitialDelayMS    int     `json:"initial_delay_ms,omitempty" minimum:"0" maximum:"86400000" doc:"Delay before the first retry. 0: the default, 10000."`
	BackoffMultiplier float64 `json:"backoff_multiplier,omitempty" minimum:"0" maximum:"10" doc:"Factor between the delays of consecutive retries, 1 to 10. 0: the default, 3."`
	MaxDelayMS        int     `json:"max_delay_ms,omitempty" minimum:"0" maximum:"604800000" doc:"Maximum delay, at least the initial delay. 0: the default, 3600000."`
	ScheduleSeconds   []int   `json:"schedule_seconds,omitempty" maxItems:"25" example:"[30,120,600]" doc:"Explicit delays in seconds. While set, the other fields of the policy are stored but not used."`
}

func (p RetryPolicy) policy() eventhook.RetryPolicy {
	return eventhook.RetryPolicy{MaxRetries: p.MaxRetries, InitialDelayMS: p.InitialDelayMS, BackoffMultiplier: p.BackoffMultiplier,
		MaxDelayMS: p.MaxDelayMS, ScheduleSeconds: p.ScheduleSeconds}
}

func retryView(p eventhook.RetryPolicy) RetryPolicy {
	return RetryPolicy{p.MaxRetries, p.InitialDelayMS, p.BackoffMultiplier, p.MaxDelayMS, p.ScheduleSeconds}
}

// SourceReply is the response to an accepted webhook.
type SourceReply struct {
	Status      int    `json:"status" minimum:"200" maximum:"299" doc:"Status code of the response."`
	ContentType string `json:"content_type,omitempty" maxLength:"255" doc:"Content type of the response."`
	Body        string `json:"body,omitempty" maxLength:"65536" doc:"Body of the response."`
}

// sourceFieldsOf returns the fields of a stored source as they were given, including
// secrets.
func sourceFieldsOf(s eventhook.Source, spec verify.Spec) SourceFields {
	return SourceFields{
		Name: s.Name, Description: s.Description, IsEnabled: &s.IsEnabled, Provider: spec.Provider, Scheme: spec.Scheme,
		Secrets: spec.Secrets, PublicKeys: spec.PublicKeys,
		Options: spec.Options, ToleranceSeconds: spec.ToleranceSeconds, Verifier: (*Verifier)(spec.Verifier),
		IdempotencyKeyPaths: s.IdempotencyKeyPaths, EventTypePaths: s.EventTypePaths, RequireIdempotencyKey: s.RequireIdempotencyKey,
		RateLimit: RateLimit(s.RateLimit), Retry: retryView(s.Retry), AllowedIPRanges: s.AllowedIPRanges, MaxBodyBytes: s.MaxBodyBytes,
		ContentTypes: s.ContentTypes, Response: (*SourceReply)(s.Response), ReplayProtection: s.ReplayProtection,
		Consume: viewConsume(s.Consume),
	}
}

// over returns s with these fields, and the faults of the result.
func (f SourceFields) over(s eventhook.Source) (eventhook.Source, eventhook.Faults) {
	s.Name, s.IsEnabled = f.Name, f.IsEnabled == nil || *f.IsEnabled
	if s.Name == "" {
		s.Name = s.Slug
	}
	s.SourceSettings = eventhook.SourceSettings{
		Description: f.Description, IdempotencyKeyPaths: f.IdempotencyKeyPaths, EventTypePaths: f.EventTypePaths,
		RequireIdempotencyKey: f.RequireIdempotencyKey,
		RateLimit:             eventhook.RateLimit(f.RateLimit), Retry: f.Retry.policy(), AllowedIPRanges: f.AllowedIPRanges,
		MaxBodyBytes: f.MaxBodyBytes, ContentTypes: f.ContentTypes, Response: (*eventhook.SourceReply)(f.Response),
		ReplayProtection: f.ReplayProtection,
	}
	var faults eventhook.Faults
	if f.Consume != nil {
		faults.Merge("body", f.Consume.assignTo(&s, f.spec()))
	} else {
		faults.Merge("body", f.assignVerifier(&s))
	}
	rules := s.Validate()
	if f.Name == "" { // the name is the slug, whose fault is reported already
		rules = slices.DeleteFunc(rules, func(one eventhook.Fault) bool { return one.Location == "name" })
	}
	faults.Merge("body", rules)
	return s, faults
}

// assignVerifier makes a source receive webhooks.
func (f SourceFields) assignVerifier(s *eventhook.Source) eventhook.Faults {
	had := s.Verifier
	if s.Consume != nil { // its verifier accepts no request
		had, s.Consume = eventhook.Secret{}, nil
	}
	faults := f.spec().AssignTo(s)
	return append(faults, verify.ValidateChange(had, s.Verifier)...)
}

func (f SourceFields) spec() verify.Spec {
	return verify.Spec{Provider: f.Provider, Scheme: f.Scheme, Secrets: f.Secrets, PublicKeys: f.PublicKeys, Options: f.Options,
		ToleranceSeconds: f.ToleranceSeconds, Verifier: (*verify.Config)(f.Verifier)}
}
