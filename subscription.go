package eventhook

import (
	"encoding/json"
	"time"
)

// SubscriptionStatus is the life of a subscription; see docs/states.md.
type SubscriptionStatus string

// The states of a subscription. To a paused one deliveries are made and wait;
// to a disabled one none are made, and those that wait go on waiting.
const (
	SubscriptionActive   SubscriptionStatus = "active"
	SubscriptionPaused   SubscriptionStatus = "paused"   // by a person
	SubscriptionDisabled SubscriptionStatus = "disabled" // by failures, by a 410, or with its tenant
)

// Subscription says which of a tenant's events are sent to whom, and how.
type Subscription struct {
	ID             SubscriptionID
	TenantID       TenantID
	TenantSlug     string
	Name           string // several may have the same
	Status         SubscriptionStatus
	DisabledReason string // for people; "" unless disabled
	EventTypes     []string
	Filter         json.RawMessage // a pattern over the event, as a route's; nil for none
	SubscriptionSettings
	SubscriptionSecrets
	// SecretsLost says that its secrets are sealed with a key that is gone: they
	// are not here, and nothing can be sent.
	SecretsLost bool
	Version     int64 // grows with every change
	CreatedAt   time.Time
	UpdatedAt   time.Time
}

// SubscriptionSettings are what a subscription says beside whom and what.
// Zero numbers mean the default, but for those whose comment says more.
type SubscriptionSettings struct {
	Headers              map[string]string `json:"headers,omitempty" yaml:"headers"`
	TargetLabels         []string          `json:"target_labels,omitempty" yaml:"target_labels"` // of agents; none: the gateway sends
	Retry                RetryPolicy       `json:"retry,omitzero" yaml:"retry"`
	TimeoutSeconds       int               `json:"timeout_seconds,omitempty" yaml:"timeout_seconds"`
	DisableAfterFailures *int              `json:"disable_after_failures,omitempty" yaml:"disable_after_failures"` // deliveries dead in a row; 0: never
	MaxInFlight          int               `json:"max_in_flight,omitempty" yaml:"max_in_flight"`                   // from each instance
	RatePerSecond        int               `json:"rate_per_second,omitempty" yaml:"rate_per_second"`               // from all instances; 0: no limit
	Signatures           []string          `json:"signatures,omitempty" yaml:"signatures"`                         // SignatureHMAC by default
}

// The signatures of Standard Webhooks.
const (
	SignatureHMAC    = "v1"  // HMAC-SHA256
	SignatureEd25519 = "v1a" // ed25519
)

// SubscriptionSecrets are sealed at rest, together, and never shown but for the
// signing secret once.
type SubscriptionSecrets struct {
	URL        Secret
	AuthHeader Secret // "" without one
	// Signing are the secrets that sign: the current one first, then those of
	// which a rotation has left some time.
	Signing []SigningSecret
	// Ed25519Seed is the private key of SignatureEd25519, in base64; "" unless it
	// was asked for once.
	Ed25519Seed Secret
}

// SigningSecret signs until ExpiresAt; nil has no end.
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

// DeliveryRetry is when failed deliveries are tried again: after 1, 2, 4, 8 and
// 16 seconds, 60 at most.
var DeliveryRetry = RetryPolicy{MaxRetries: new(5), InitialDelayMS: 1_000, BackoffMultiplier: 2, MaxDelayMS: 60_000}

// Timeout is TimeoutSeconds or its default.
func (s SubscriptionSettings) Timeout() time.Duration {
	return orDefault(time.Duration(s.TimeoutSeconds)*time.Second, DefaultDeliveryTimeout)
}

// InFlight is MaxInFlight or its default.
func (s SubscriptionSettings) InFlight() int { return orDefault(s.MaxInFlight, DefaultMaxInFlight) }

// FailuresToDisable is how many deliveries dead in a row disable the subscription; 0
// never do.
func (s SubscriptionSettings) FailuresToDisable() int {
	if s.DisableAfterFailures == nil {
		return DefaultDisableAfterFailures
	}
	return *s.DisableAfterFailures
}

// IsForAgents reports whether agents send what it gets, and not the gateway.
func (s SubscriptionSettings) IsForAgents() bool { return len(s.TargetLabels) > 0 }
