package eventhook

import (
	"fmt"
	"net/netip"
	"slices"
	"time"
)

// Source receives the webhooks of one sender for a tenant, with its own URL,
// verifier and limits, or consumes the messages of a broker.
type Source struct {
	ID           SourceID
	TenantID     TenantID
	TenantSlug   string
	TenantStatus TenantStatus
	Slug         string
	Name         string
	Provider     string
	Verifier     Secret // JSON of a verify.Spec
	// Consume is the place of a broker whose messages the source consumes: a type and
	// settings of package consumers. It is nil if the source receives webhooks. A source
	// that consumes messages has a verifier that accepts no request.
	Consume      *Target
	SecretsCount int
	// LearnedSecrets are secrets that the provider sent in its handshake.
	LearnedSecrets []Secret
	// SecretRevealed means that a caller has read the learned secret.
	SecretRevealed bool
	// HandshakeOpenedAt is when the source was created or its handshake was reset.
	HandshakeOpenedAt time.Time
	IsEnabled         bool
	Version           int64 // incremented by every update
	Quota             Quota // of the tenant
	CreatedAt         time.Time
	UpdatedAt         time.Time
	IsCopy            bool // read from a copy, not from the database: it may be old, and has no Quota
	SourceSettings
}

// SourceSettings holds the settings that ingest and the processor interpret. An
// empty list and a zero limit mean the default.
type SourceSettings struct {
	Description           string       `json:"description,omitempty" yaml:"description"` // free text for users
	IdempotencyKeyPaths   []string     `json:"idempotency_key_paths,omitempty" yaml:"idempotency_key_paths"`
	EventTypePaths        []string     `json:"event_type_paths,omitempty" yaml:"event_type_paths"`
	RequireIdempotencyKey bool         `json:"require_idempotency_key,omitempty" yaml:"require_idempotency_key"`
	RateLimit             RateLimit    `json:"rate_limit,omitzero" yaml:"rate_limit"`
	Retry                 RetryPolicy  `json:"retry,omitzero" yaml:"retry"`
	AllowedIPRanges       []string     `json:"allowed_ip_ranges,omitempty" yaml:"allowed_ip_ranges"`
	MaxBodyBytes          int          `json:"max_body_bytes,omitempty" yaml:"max_body_bytes"`
	ContentTypes          []string     `json:"content_types,omitempty" yaml:"content_types"`
	Response              *SourceReply `json:"response,omitempty" yaml:"response"`
	ReplayProtection      string       `json:"replay_protection,omitempty" yaml:"replay_protection"`
}

// Values of SourceSettings.ReplayProtection; empty means the provider's default.
const (
	ReplayBody = "body" // a request is a duplicate if the source has accepted the same signed bytes before
	ReplayOff  = "off"
)

// HandshakeWindow is how long after Source.HandshakeOpenedAt the source accepts a
// secret from a handshake without confirmation by a user.
const HandshakeWindow = time.Hour

// SourceReply is the response to an accepted webhook, for providers that check it.
type SourceReply struct {
	Status      int    `json:"status" yaml:"status"`
	ContentType string `json:"content_type" yaml:"content_type"`
	Body        string `json:"body" yaml:"body"`
}

// RateLimit limits the requests to a source over all instances. It applies before
// verification.
type RateLimit struct {
	RequestsPerSecond int `json:"requests_per_second,omitempty" yaml:"requests_per_second"`
	RequestsPerMinute int `json:"requests_per_minute,omitempty" yaml:"requests_per_minute"`
	BurstSize         int `json:"burst_size,omitempty" yaml:"burst_size"`
}

// MaxConsumers is the maximum number of sources of a tenant that consume messages.
const MaxConsumers = 50

// Limits of request bodies, in bytes.
const (
	DefaultMaxBodyBytes = 1 << 20
	LargestMaxBodyBytes = 32 << 20
)

// The default rate limit of a source.
const (
	DefaultRequestsPerSecond = 100
	DefaultRequestsPerMinute = 1000
	DefaultBurstSize         = 50
)

// WithDefaults returns r with zero fields set to the defaults.
func (r RateLimit) WithDefaults() RateLimit {
	return RateLimit{
		RequestsPerSecond: orDefault(r.RequestsPerSecond, DefaultRequestsPerSecond),
		RequestsPerMinute: orDefault(r.RequestsPerMinute, DefaultRequestsPerMinute),
		BurstSize:         orDefault(r.BurstSize, DefaultBurstSize),
	}
}

// BodyLimit returns MaxBodyBytes or its default.
func (s SourceSettings) BodyLimit() int { return orDefault(s.MaxBodyBytes, DefaultMaxBodyBytes) }

// reservedSources lists slugs that no source may have: pages of the console and
// filters use them.
var reservedSources = []string{"new", "all"}

// Validate returns every fault by its field and changes nothing. Package verify
// checks the verifier.
func (s Source) Validate() Faults {
	var f Faults
	checkSlug(&f, "slug", s.Slug)
	if slices.Contains(reservedSources, s.Slug) {
		f.Add("slug", "%q is reserved", s.Slug)
	}
	checkName(&f, s.Name)
	f.Merge("", s.SourceSettings.Validate())
	return f
}

// Validate returns every fault by its field and changes nothing.
func (s SourceSettings) Validate() Faults {
	var f Faults
	checkFreeText(&f, "description", s.Description, maxDescription)
	checkLength(&f, "idempotency_key_paths", s.IdempotencyKeyPaths, 20)
	checkLength(&f, "event_type_paths", s.EventTypePaths, 20)
	checkLength(&f, "allowed_ip_ranges", s.AllowedIPRanges, 1000)
	checkLength(&f, "content_types", s.ContentTypes, 50)
	for i, p := range s.IdempotencyKeyPaths {
		checkPath(&f, fmt.Sprintf("idempotency_key_paths[%d]", i), p)
	}
	for i, p := range s.EventTypePaths {
		checkPath(&f, fmt.Sprintf("event_type_paths[%d]", i), p)
	}
	checkRange(&f, "rate_limit.requests_per_second", s.RateLimit.RequestsPerSecond, 0, 1_000_000)
	checkRange(&f, "rate_limit.requests_per_minute", s.RateLimit.RequestsPerMinute, 0, 60_000_000)
	checkRange(&f, "rate_limit.burst_size", s.RateLimit.BurstSize, 0, 1_000_000)
	checkRange(&f, "max_body_bytes", s.MaxBodyBytes, 0, LargestMaxBodyBytes)
	f.Merge("retry", s.Retry.Validate())
	if s.Retry.Jitter != "" {
		f.Add("retry.jitter", "is a setting of subscriptions only")
	}
	if len(s.Retry.TerminalStatuses) > 0 {
		f.Add("retry.terminal_statuses", "is a setting of subscriptions and http targets only")
	}
	for i, r := range s.AllowedIPRanges {
		if _, err := netip.ParsePrefix(r); err != nil {
			f.Add(fmt.Sprintf("allowed_ip_ranges[%d]", i), "%q is not a CIDR such as 192.0.2.0/24", r)
		}
	}
	for i, c := range s.ContentTypes {
		checkLine(&f, fmt.Sprintf("content_types[%d]", i), c)
	}
	if s.ReplayProtection != "" && s.ReplayProtection != ReplayBody && s.ReplayProtection != ReplayOff {
		f.Add("replay_protection", "%q is neither %s nor %s", s.ReplayProtection, ReplayBody, ReplayOff)
	}
	if s.Response != nil {
		f.Merge("response", s.Response.validate())
	}
	return f
}

func (r SourceReply) validate() Faults {
	var f Faults
	checkRange(&f, "status", r.Status, 200, 299)
	checkLine(&f, "content_type", r.ContentType)
	checkRange(&f, "body", len(r.Body), 0, 64<<10)
	if !isText(r.Body) {
		f.Add("body", "must be UTF-8 without NUL")
	}
	if r.Body != "" && (r.Status == 204 || r.Status == 205) {
		f.Add("body", "must be empty: a response with status %d has no body", r.Status)
	}
	return f
}

// SourceCopy is a source in a form that can be stored outside of the database: its secrets are sealed.
type SourceCopy struct {
	ID           SourceID
	Tenant, Slug string // slugs
	Value        []byte
}
