package api

import (
	"slices"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/verify"
)

// SourceCreate is a source to be made.
type SourceCreate struct {
	Slug string `json:"slug" minLength:"1" maxLength:"63" pattern:"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$" patternDescription:"1 to 63 lower-case letters, digits and inner hyphens" example:"github" doc:"Names the source in its URL; it cannot change."`
	SourceFields
}

// SourcePatch is what shall change of a source.
type SourcePatch struct {
	Slug string `json:"slug,omitempty" doc:"May be named, and cannot change."`
	SourceFields
}

// SourceFields are what a source is told when it is made, and may be told later.
type SourceFields struct {
	Name                  string            `json:"name,omitempty" maxLength:"200" doc:"For people; the slug by default."`
	IsEnabled             *bool             `json:"is_enabled,omitempty" doc:"Whether it receives; true by default."`
	Provider              string            `json:"provider,omitempty" example:"github" doc:"One of GET …/providers. It says how requests are verified, and where their id and type are."`
	Scheme                string            `json:"scheme,omitempty" doc:"One of the provider's; its first by default."`
	Secrets               []string          `json:"secrets,omitempty" maxItems:"16" writeOnly:"true" doc:"All live: during a rotation the new one and the old one. Never shown again."`
	PublicKeys            []string          `json:"public_keys,omitempty" maxItems:"16" doc:"PEM, JWK, or the provider's own form."`
	Options               map[string]string `json:"options,omitempty" doc:"What else the provider must be told, by name; GET …/providers lists the options."`
	ToleranceSeconds      *int              `json:"tolerance_seconds,omitempty" minimum:"0" maximum:"1000000000" doc:"How far a request's timestamp may lie from its receipt; the provider's by default, 0: it is not judged."`
	Verifier              *Verifier         `json:"verifier,omitempty" doc:"How requests are verified, spelled out instead of the provider's way."`
	IdempotencyKeyPaths   []string          `json:"idempotency_key_paths,omitempty" maxItems:"20" example:"[\"header.x-request-id\",\"body.id\"]" doc:"Where a request's id is: the first path that exists. The provider's by default; without any nothing is a duplicate."`
	EventTypePaths        []string          `json:"event_type_paths,omitempty" maxItems:"20" example:"[\"header.x-topic\"]" doc:"Where a request's event type is: the first path that exists. The provider's by default; common places follow."`
	RequireIdempotencyKey bool              `json:"require_idempotency_key,omitempty" doc:"Refuse what has no id: 400."`
	RateLimit             RateLimit         `json:"rate_limit,omitzero"`
	Retry                 RetryPolicy       `json:"retry,omitzero"`
	AllowedIPRanges       []string          `json:"allowed_ip_ranges,omitempty" maxItems:"1000" example:"[\"192.0.2.0/24\"]" doc:"CIDRs that may send; all by default."`
	MaxBodyBytes          int               `json:"max_body_bytes,omitempty" minimum:"0" maximum:"33554432" doc:"Larger ones are refused: 413. 0: the default, 1048576."`
	ContentTypes          []string          `json:"content_types,omitempty" maxItems:"50" example:"[\"application/json\"]" doc:"Media types that are taken; all by default."`
	Response              *SourceReply      `json:"response,omitempty" doc:"The answer to what is accepted, for providers that check it."`
	ReplayProtection      string            `json:"replay_protection,omitempty" enum:"body,off" doc:"body: a request whose signed bytes the source has accepted before is a duplicate, whatever its headers say. The provider's default where it is not given; off for a verifier that is spelled out."`
}

// RateLimit bounds the requests to a source on each instance, before they are
// verified.
type RateLimit struct {
	RequestsPerSecond int `json:"requests_per_second,omitempty" minimum:"0" maximum:"1000000" doc:"0: the default, 100."`
	RequestsPerMinute int `json:"requests_per_minute,omitempty" minimum:"0" maximum:"60000000" doc:"0: the default, 1000."`
	BurstSize         int `json:"burst_size,omitempty" minimum:"0" maximum:"1000000" doc:"0: the default, 50."`
}

// RetryPolicy says when failed work is tried again.
type RetryPolicy struct {
	MaxRetries        *int    `json:"max_retries,omitempty" minimum:"0" maximum:"25" doc:"3 by default; 0: never."`
	InitialDelayMS    int     `json:"initial_delay_ms,omitempty" minimum:"0" maximum:"86400000" doc:"Before the first retry. 0: the default, 10000."`
	BackoffMultiplier float64 `json:"backoff_multiplier,omitempty" minimum:"0" maximum:"10" doc:"Of the delay from one retry to the next, 1 to 10. 0: the default, 3."`
	MaxDelayMS        int     `json:"max_delay_ms,omitempty" minimum:"0" maximum:"604800000" doc:"The longest delay, not less than the initial one. 0: the default, 3600000."`
	ScheduleSeconds   []int   `json:"schedule_seconds,omitempty" maxItems:"25" example:"[30,120,600]" doc:"The delays one by one; while it is there, the rest of the policy is kept and does not count."`
}

func (p RetryPolicy) policy() eventhook.RetryPolicy {
	return eventhook.RetryPolicy{MaxRetries: p.MaxRetries, InitialDelayMS: p.InitialDelayMS, BackoffMultiplier: p.BackoffMultiplier,
		MaxDelayMS: p.MaxDelayMS, ScheduleSeconds: p.ScheduleSeconds}
}

func retryView(p eventhook.RetryPolicy) RetryPolicy {
	return RetryPolicy{p.MaxRetries, p.InitialDelayMS, p.BackoffMultiplier, p.MaxDelayMS, p.ScheduleSeconds}
}

// SourceReply is the answer to an accepted webhook.
type SourceReply struct {
	Status      int    `json:"status" minimum:"200" maximum:"299"`
	ContentType string `json:"content_type,omitempty" maxLength:"255"`
	Body        string `json:"body,omitempty" maxLength:"65536"`
}

// sourceFieldsOf are a stored source's, as they were given, with the secrets.
func sourceFieldsOf(s eventhook.Source, spec verify.Spec) SourceFields {
	return SourceFields{
		Name: s.Name, IsEnabled: &s.IsEnabled, Provider: spec.Provider, Scheme: spec.Scheme, Secrets: spec.Secrets, PublicKeys: spec.PublicKeys,
		Options: spec.Options, ToleranceSeconds: spec.ToleranceSeconds, Verifier: (*Verifier)(spec.Verifier),
		IdempotencyKeyPaths: s.IdempotencyKeyPaths, EventTypePaths: s.EventTypePaths, RequireIdempotencyKey: s.RequireIdempotencyKey,
		RateLimit: RateLimit(s.RateLimit), Retry: retryView(s.Retry), AllowedIPRanges: s.AllowedIPRanges, MaxBodyBytes: s.MaxBodyBytes,
		ContentTypes: s.ContentTypes, Response: (*SourceReply)(s.Response), ReplayProtection: s.ReplayProtection,
	}
}

// over is a source with these fields instead of its own, and what is wrong
// with it.
func (f SourceFields) over(s eventhook.Source) (eventhook.Source, eventhook.Faults) {
	s.Name, s.IsEnabled = f.Name, f.IsEnabled == nil || *f.IsEnabled
	if s.Name == "" {
		s.Name = s.Slug
	}
	s.SourceSettings = eventhook.SourceSettings{
		IdempotencyKeyPaths: f.IdempotencyKeyPaths, EventTypePaths: f.EventTypePaths, RequireIdempotencyKey: f.RequireIdempotencyKey,
		RateLimit: eventhook.RateLimit(f.RateLimit), Retry: f.Retry.policy(), AllowedIPRanges: f.AllowedIPRanges,
		MaxBodyBytes: f.MaxBodyBytes, ContentTypes: f.ContentTypes, Response: (*eventhook.SourceReply)(f.Response),
		ReplayProtection: f.ReplayProtection,
	}
	var faults eventhook.Faults
	had := s.Verifier
	faults.Merge("body", f.spec().AssignTo(&s))
	faults.Merge("body", verify.ValidateChange(had, s.Verifier))
	rules := s.Validate()
	if f.Name == "" { // the slug is at fault
		rules = slices.DeleteFunc(rules, func(one eventhook.Fault) bool { return one.Location == "name" })
	}
	faults.Merge("body", rules)
	return s, faults
}

func (f SourceFields) spec() verify.Spec {
	return verify.Spec{Provider: f.Provider, Scheme: f.Scheme, Secrets: f.Secrets, PublicKeys: f.PublicKeys, Options: f.Options,
		ToleranceSeconds: f.ToleranceSeconds, Verifier: (*verify.Config)(f.Verifier)}
}
