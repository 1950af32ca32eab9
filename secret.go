package eventhook

import (
	"fmt"
	"log/slog"
)

// Redacted stands for a secret wherever people read, and in Target.Settings.
const Redacted = "[redacted]"

// Secret holds a text that must not be shown: however it is printed, logged
// or marshalled, it says [redacted]. Only Reveal gives it away. Equal
// compares two of them, == does not.
type Secret struct{ v *string }

// NewSecret hides s.
func NewSecret(s string) Secret { return Secret{&s} }

// Reveal returns the text.
func (s Secret) Reveal() string {
	if s.v == nil {
		return ""
	}
	return *s.v
}

// Equal reports whether both hold the same text. How long it takes may tell
// where they differ: it is for what is configured, not for what somebody sends.
func (s Secret) Equal(other Secret) bool { return s.Reveal() == other.Reveal() }

// IsZero reports whether there is no text.
func (s Secret) IsZero() bool { return s.v == nil || *s.v == "" }

// Format implements fmt.Formatter for every verb.
func (Secret) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(Redacted)) }

// MarshalText implements encoding.TextMarshaler, which JSON uses too.
func (Secret) MarshalText() ([]byte, error) { return []byte(Redacted), nil }

// LogValue implements slog.LogValuer.
func (Secret) LogValue() slog.Value { return slog.StringValue(Redacted) }
