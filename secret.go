package eventhook

import (
	"fmt"
	"log/slog"
)

const redacted = "[redacted]"

// Secret holds a text that must not be shown: however it is printed, logged
// or marshalled, it says [redacted]. Only Reveal gives it away. Two Secrets
// are not comparable by value.
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

// IsZero reports whether there is no text.
func (s Secret) IsZero() bool { return s.v == nil || *s.v == "" }

// Format implements fmt.Formatter for every verb.
func (Secret) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(redacted)) }

// MarshalText implements encoding.TextMarshaler, which JSON uses too.
func (Secret) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// LogValue implements slog.LogValuer.
func (Secret) LogValue() slog.Value { return slog.StringValue(redacted) }
