package eventhook

import (
	"fmt"
	"log/slog"
)

// Redacted replaces a secret in output and in Target.Settings.
const Redacted = "[redacted]"

// Secret holds a text that must not be shown. It prints, logs and marshals as
// [redacted]; only Reveal returns the text. Compare secrets with Equal, not with ==.
type Secret struct{ v *string }

// NewSecret returns a Secret that holds s.
func NewSecret(s string) Secret { return Secret{&s} }

// Reveal returns the text.
func (s Secret) Reveal() string {
	if s.v == nil {
		return ""
	}
	return *s.v
}

// Equal reports whether both secrets hold the same text. The comparison does not
// take constant time: use it for configured values, never for values from a request.
func (s Secret) Equal(other Secret) bool { return s.Reveal() == other.Reveal() }

// IsZero reports whether the secret is empty.
func (s Secret) IsZero() bool { return s.v == nil || *s.v == "" }

// Format implements fmt.Formatter for every verb.
func (Secret) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(Redacted)) }

// MarshalText implements encoding.TextMarshaler, which JSON uses too.
func (Secret) MarshalText() ([]byte, error) { return []byte(Redacted), nil }

// LogValue implements slog.LogValuer.
func (Secret) LogValue() slog.Value { return slog.StringValue(Redacted) }
