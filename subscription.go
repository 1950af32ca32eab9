package eventhook

import (
	"encoding/json"
	"slices"
	"time"
)

// SubscriptionStatus is the state of a subscription; see docs/states.md.
type SubscriptionStatus string

// The states of a subscription. A paused subscription gets deliveries, which wait
// until it is resumed. A disabled subscription gets no deliveries; its open
// deliveries wait until it is enabled.
const (
	SubscriptionActive   SubscriptionStatus = "active"
	SubscriptionPaused   SubscriptionStatus = "paused"   // by a user
	SubscriptionDisabled SubscriptionStatus = "disabled" // DisabledBy says why
)

// DisabledBy is the cause for which a subscription is disabled; "" unless it is disabled.
type DisabledBy string

// The causes. Only after failures does the gateway probe the receiver and enable the
// subscription by itself; meanwhile it stores new deliveries and holds them.
const (
	DisabledByFailures DisabledBy = "failures" // too many consecutive deliveries were dead
	DisabledByGone     DisabledBy = "gone"     // the receiver answered 410
	DisabledByUser     DisabledBy = "user"
	DisabledByTenant   DisabledBy = "tenant" // the tenant was closed
)

// Subscription sends some of a tenant's events to a receiver.
type Subscription struct {
	ID             SubscriptionID
	TenantID       TenantID
	TenantSlug     string
	Name           string // need not be unique
	Status         SubscriptionStatus
	DisabledReason string // readable by users; "" unless disabled
	DisabledBy     DisabledBy
	RecoveredAt    *time.Time // when it was last enabled after it had been disabled; older events' deliveries were held
	EventTypes     []string
	Filter         json.RawMessage // a pattern for the event, as in a route; nil without one
	SubscriptionSettings
	SubscriptionSecrets
	// SecretsLost means that the secrets are sealed with a key that the gateway does
	// not have. The secrets are empty and nothing can be sent.
	SecretsLost bool
	// NarrowedAt is when scope_filter was last changed to exclude events that matched before; nil:
	// never. Older deliveries may be of other scopes.
	NarrowedAt *time.Time
	Version    int64 // incremented by every update
	CreatedAt  time.Time
	UpdatedAt  time.Time
}

// SubscriptionSettings holds the settings of a subscription besides its event types
// and filter. A zero number means the default unless the comment of the field says
// otherwise.
type SubscriptionSettings struct {
	Headers              map[string]string `json:"headers,omitempty" yaml:"headers"`
	TargetLabels         []string          `json:"target_labels,omitempty" yaml:"target_labels"` // labels of agents; empty means that the gateway sends
	Retry                RetryPolicy       `json:"retry,omitzero" yaml:"retry"`
	TimeoutSeconds       int               `json:"timeout_seconds,omitempty" yaml:"timeout_seconds"`
	DisableAfterFailures *int              `json:"disable_after_failures,omitempty" yaml:"disable_after_failures"` // consecutive dead deliveries; 0 means never
	MaxInFlight          int               `json:"max_in_flight,omitempty" yaml:"max_in_flight"`                   // per instance
	RatePerSecond        int               `json:"rate_per_second,omitempty" yaml:"rate_per_second"`               // for all instances together; 0 means no limit
	Signatures           []string          `json:"signatures,omitempty" yaml:"signatures"`                         // SignatureHMAC by default
	// ScopeFilter holds patterns for the scope of events: exact, prefix/*, or *. Without
	// patterns, the scope does not matter; with patterns, events without a scope never match.
	ScopeFilter  []string       `json:"scope_filter,omitempty" yaml:"scope_filter"`
	Transform    *Transform     `json:"transform,omitempty" yaml:"transform"`         // makes the body; nil without one
	Format       string         `json:"format,omitempty" yaml:"format"`               // FormatEventhook by default
	HeaderPrefix string         `json:"header_prefix,omitempty" yaml:"header_prefix"` // DefaultHeaderPrefix by default
	OrderedBy    string         `json:"ordered_by,omitempty" yaml:"ordered_by"`       // path of the envelope; "": no order
	Recovery     RecoveryPolicy `json:"recovery,omitzero" yaml:"recovery"`
	Tenants      []string       `json:"tenants,omitempty" yaml:"-"` // of an operator subscription: slugs; empty: all tenants
}

// HoldsDeliveries reports whether new deliveries are stored and held although the
// subscription is disabled: failures have disabled it, and its receiver is probed.
func (s Subscription) HoldsDeliveries() bool {
	return s.Status == SubscriptionDisabled && s.DisabledBy == DisabledByFailures && s.Recovery.IsEnabled()
}

// RecoveryPolicy says whether deliveries that a receiver missed during an outage are sent
// when it answers again.
type RecoveryPolicy struct {
	Enabled     *bool `json:"enabled,omitempty" yaml:"enabled"`             // nil means true
	MaxAgeHours int   `json:"max_age_hours,omitempty" yaml:"max_age_hours"` // 0 means DefaultRecoveryHours
}

// DefaultRecoveryHours is the default of RecoveryPolicy.MaxAgeHours.
const DefaultRecoveryHours = 72

// IsEnabled returns Enabled or its default.
func (p RecoveryPolicy) IsEnabled() bool { return p.Enabled == nil || *p.Enabled }

// MaxAge returns the age up to which missed deliveries are sent.
func (p RecoveryPolicy) MaxAge() time.Duration {
	return time.Duration(orDefault(p.MaxAgeHours, DefaultRecoveryHours)) * time.Hour
}

// The formats of the body of deliveries.
const (
	FormatEventhook   = "eventhook"
	FormatCloudEvents = "cloudevents" // structured mode of CloudEvents 1.0
	FormatSlack       = "slack"
	FormatTeams       = "teams"
	FormatPagerDuty   = "pagerduty"
)

// Formats lists all formats.
var Formats = []string{FormatEventhook, FormatCloudEvents, FormatSlack, FormatTeams, FormatPagerDuty}

// DefaultHeaderPrefix begins the names of the gateway's own headers of deliveries.
const DefaultHeaderPrefix = "X-Eventhook"

// The signatures of Standard Webhooks.
const (
	SignatureHMAC    = "v1"  // HMAC-SHA256
	SignatureEd25519 = "v1a" // ed25519
)

// SubscriptionSecrets holds the secrets of a subscription. They are sealed together
// at rest. The API never returns them, except a generated signing secret once.
type SubscriptionSecrets struct {
	URL        Secret
	AuthHeader Secret // "" without one
	Auth       Secret // an Auth: see OpenAuth; "" without one. It excludes AuthHeader
	// Signing lists the secrets that sign: the current secret, then previous secrets
	// until they expire.
	Signing []SigningSecret
	// Ed25519Seed is the private key for SignatureEd25519 in base64; "" until that
	// signature is first requested.
	Ed25519Seed Secret
}

// SigningSecret is a secret that signs until ExpiresAt, or without end if ExpiresAt
// is nil.
type SigningSecret struct {
	Secret    Secret // whsec_…
	ExpiresAt *time.Time
}

// The defaults of subscriptions.
const (
	DefaultDeliveryTimeout      = 30 * time.Second
	DefaultDisableAfterFailures = 10
	DefaultMaxInFlight          = 10
)

// DeliveryRetry is the default policy of deliveries: 5 retries after 1, 2, 4, 8 and
// 16 seconds.
var DeliveryRetry = RetryPolicy{MaxRetries: new(5), InitialDelayMS: 1_000, BackoffMultiplier: 2, MaxDelayMS: 60_000}

// Timeout returns TimeoutSeconds or its default.
func (s SubscriptionSettings) Timeout() time.Duration {
	return orDefault(time.Duration(s.TimeoutSeconds)*time.Second, DefaultDeliveryTimeout)
}

// InFlight returns MaxInFlight or its default.
func (s SubscriptionSettings) InFlight() int { return orDefault(s.MaxInFlight, DefaultMaxInFlight) }

// FailuresToDisable returns how many consecutive dead deliveries disable the
// subscription; 0 means that they never do.
func (s SubscriptionSettings) FailuresToDisable() int {
	if s.DisableAfterFailures == nil {
		return DefaultDisableAfterFailures
	}
	return *s.DisableAfterFailures
}

// IsForAgents reports whether agents send the deliveries instead of the gateway.
func (s SubscriptionSettings) IsForAgents() bool { return len(s.TargetLabels) > 0 }

// WithGeneratedSecrets returns s with missing secrets generated: the signing secret,
// and the Ed25519 key if Signatures contains SignatureEd25519.
func (s Subscription) WithGeneratedSecrets() Subscription {
	if len(s.Signing) == 0 {
		s.Signing = []SigningSecret{{Secret: NewSigningSecret()}}
	}
	if s.Ed25519Seed.IsZero() && s.IsSignedWith(SignatureEd25519) {
		s.Ed25519Seed = NewEd25519Seed()
	}
	return s
}

// IsSignedWith reports whether deliveries carry the signature.
func (s SubscriptionSettings) IsSignedWith(signature string) bool {
	if len(s.Signatures) == 0 {
		return signature == SignatureHMAC
	}
	return slices.Contains(s.Signatures, signature)
}
