package api

import (
	"cmp"
	"context"
	"strings"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/ingest"
	"github.com/eventhook/eventhook/verify"
)

// Source is a source in responses: without secrets, and with defaults in place of
// omitted settings.
type Source struct {
	ID                    string            `json:"id" format:"uuid"`
	Slug                  string            `json:"slug" doc:"Identifies the source in URLs."`
	Name                  string            `json:"name" doc:"Display name."`
	Description           *string           `json:"description" doc:"Free text for users; null if none."`
	IsEnabled             bool              `json:"is_enabled" doc:"Whether the source accepts webhooks."`
	IngestURL             string            `json:"ingest_url" doc:"URL to which the provider sends webhooks. The URL of a source that consumes messages accepts no request."`
	Provider              *string           `json:"provider" doc:"Id of the provider; null with a custom verifier."`
	Scheme                *string           `json:"scheme" doc:"Verification scheme of the provider; null for the provider's first scheme."`
	SecretsLost           bool              `json:"secrets_lost,omitempty" doc:"True if the secrets cannot be decrypted because the encryption key is missing. The source refuses webhooks until the secrets are set again or the key is restored."`
	SecretsCount          int               `json:"secrets_count" doc:"Number of secrets, including a secret received by a handshake. Secrets are never returned."`
	PublicKeys            []string          `json:"public_keys" doc:"Public keys that verify requests."`
	Options               map[string]string `json:"options" doc:"Provider-specific options, without secret ones."`
	ToleranceSeconds      *int              `json:"tolerance_seconds" doc:"Null for the provider's default."`
	Verifier              *Verifier         `json:"verifier,omitempty" doc:"Absent if a provider defines the verification."`
	IdempotencyKeyPaths   []string          `json:"idempotency_key_paths" doc:"The source's own setting, else the provider's."`
	EventTypePaths        []string          `json:"event_type_paths" doc:"The source's own paths, else the provider's. Common headers and members are tried last."`
	RequireIdempotencyKey bool              `json:"require_idempotency_key" doc:"Whether requests without an idempotency key are refused."`
	RateLimit             RateLimit         `json:"rate_limit" doc:"Limits of requests, over all gateway instances together within about 10 %."`
	Retry                 RetryPolicy       `json:"retry" doc:"Retries of failed events."`
	AllowedIPRanges       []string          `json:"allowed_ip_ranges" doc:"Empty if all addresses may send."`
	MaxBodyBytes          int               `json:"max_body_bytes" doc:"Maximum body size in bytes."`
	ContentTypes          []string          `json:"content_types" doc:"Empty if all media types are accepted."`
	Response              *SourceReply      `json:"response,omitempty" doc:"The source's own response, else the provider's; absent for the default, 200 with the event id."`
	Warnings              []string          `json:"warnings" doc:"Settings that are allowed but not recommended."`
	Consume               *Consume          `json:"consume,omitempty" doc:"Where the source consumes messages of a broker; absent if it receives webhooks. Secrets are [redacted]."`
	Consumer              *Consumer         `json:"consumer,omitempty" doc:"State of a source that consumes messages; absent if it receives webhooks."`
	ReplayProtection      string            `json:"replay_protection" enum:"body,off" doc:"The source's own setting, else the provider's."`
	Stats                 SourceStats       `json:"stats" doc:"Recent events."`
	Version               int64             `json:"version" doc:"Increases with every change and is used as the ETag."`
	CreatedAt             time.Time         `json:"created_at"`
	UpdatedAt             time.Time         `json:"updated_at"`
}

// SourceStats counts the recent events of a source. The periods may include up to five
// minutes more, and the latest seconds may be missing.
type SourceStats struct {
	EventsLastHour int64 `json:"events_last_hour" doc:"Stored events, including duplicates."`
	EventsLast24h  int64 `json:"events_last_24h" doc:"Stored events, including duplicates."`
	FailedLast24h  int64 `json:"failed_last_24h" doc:"Events whose first processing attempt failed, whatever their status is now."`
}

func (s *server) answerSource(ctx context.Context, source eventhook.Source) (*sourceAnswer, error) {
	views, err := s.viewSources(ctx, []eventhook.Source{source})
	if err != nil {
		return nil, err
	}
	return &sourceAnswer{etag(source.Version), views[source.ID]}, nil
}

// viewSources returns the views of sources by id.
func (s *server) viewSources(ctx context.Context, list []eventhook.Source) (map[eventhook.SourceID]Source, error) {
	stats, err := s.sourceStats(ctx, list)
	if err != nil {
		return nil, err
	}
	states, err := s.consumerStates(ctx, list)
	if err != nil {
		return nil, err
	}
	views := make(map[eventhook.SourceID]Source, len(list))
	for _, source := range list {
		v, err := s.viewSource(source)
		if err != nil {
			return nil, err
		}
		v.Stats = SourceStats(stats[source.ID])
		if state, ok := states[source.ID]; ok {
			v.Consumer = viewConsumer(state)
		}
		views[source.ID] = v
	}
	return views, nil
}

func (s *server) sourceStats(ctx context.Context, list []eventhook.Source) (map[eventhook.SourceID]eventhook.SourceStats, error) {
	if s.Usage == nil || len(list) == 0 {
		return nil, nil
	}
	ids := make([]eventhook.SourceID, len(list))
	for i, source := range list {
		ids[i] = source.ID
	}
	return s.Usage.SourceStats(ctx, ids)
}

func (s *server) viewSource(x eventhook.Source) (Source, error) {
	spec, err := specOf(x)
	if err != nil {
		return Source{}, err
	}
	spec = spec.Public()
	preset, _ := verify.FindPreset(spec.Provider, spec.Scheme)
	v := Source{
		ID: x.ID.String(), Slug: x.Slug, Name: x.Name, Description: optional(x.Description), IsEnabled: x.IsEnabled,
		IngestURL: ingest.URL(s.PublicURL, x),
		Provider:  optional(spec.Provider), Scheme: optional(spec.Scheme), SecretsLost: x.Verifier.IsZero(),
		SecretsCount: x.SecretsCount, PublicKeys: list(spec.PublicKeys),
		Options: spec.Options, ToleranceSeconds: spec.ToleranceSeconds, Verifier: (*Verifier)(spec.Verifier),
		IdempotencyKeyPaths: list(orElse(x.IdempotencyKeyPaths, preset.IdempotencyKeyPaths)), EventTypePaths: list(orElse(x.EventTypePaths, preset.EventTypePaths)),
		RequireIdempotencyKey: x.RequireIdempotencyKey, RateLimit: RateLimit(x.RateLimit.WithDefaults()), Retry: retryView(x.Retry.WithDefaults(eventhook.EventRetry)),
		AllowedIPRanges: list(x.AllowedIPRanges), MaxBodyBytes: x.BodyLimit(), ContentTypes: list(x.ContentTypes), Response: (*SourceReply)(x.Response),
		Warnings:         list(spec.Warnings()),
		Consume:          viewConsume(x.Consume),
		ReplayProtection: cmp.Or(x.ReplayProtection, spec.ReplayProtection()), Version: x.Version, CreatedAt: utc(x.CreatedAt), UpdatedAt: utc(x.UpdatedAt),
	}
	if v.RequireIdempotencyKey && len(v.IdempotencyKeyPaths) == 0 {
		v.Warnings = append(v.Warnings, "idempotency_key_paths is empty, and require_idempotency_key refuses every webhook without a key (400): set idempotency_key_paths, such as body.id")
	}
	if v.SecretsCount == 0 {
		v.SecretsCount = len(x.LearnedSecrets)
	}
	if v.Options == nil {
		v.Options = map[string]string{}
	}
	if v.Response == nil {
		v.Response = (*SourceReply)(preset.Reply)
	}
	if len(x.Retry.ScheduleSeconds) > 0 {
		v.Retry = retryView(x.Retry) // with a schedule, the other fields are not used: no defaults
	}
	return v, nil
}

// specOf returns the verifier of a source. If it cannot be decrypted, only the provider
// is known. It is empty if the source consumes messages: its verifier accepts no request.
func specOf(x eventhook.Source) (verify.Spec, error) {
	if x.Consume != nil {
		return verify.Spec{}, nil
	}
	if x.Verifier.IsZero() {
		return verify.Spec{Provider: x.Provider}, nil
	}
	return verify.ReadSpec(x.Verifier)
}

// orElse returns own, or other if own is empty.
func orElse(own, other []string) []string {
	if len(own) > 0 {
		return own
	}
	return other
}

// pathTo returns the path of a tenant's resource for the header Location.
func pathTo(tenant string, steps ...string) string {
	return strings.Replace(base, "{tenant}", tenant, 1) + "/" + strings.Join(steps, "/")
}
