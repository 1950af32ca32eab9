package eventhook

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxKeyBytes is the maximum length of stored idempotency keys, event types and
// similar texts, in bytes.
const MaxKeyBytes = 255

// isText reports whether PostgreSQL can store s as text: valid UTF-8 without NUL.
func isText(s string) bool {
	return utf8.ValidString(s) && strings.IndexByte(s, 0) < 0
}

// IsLine reports whether s is empty or one line of text: valid UTF-8 without control
// characters, line breaks, and leading or trailing space.
func IsLine(s string) bool {
	return isText(s) && strings.TrimSpace(s) == s &&
		!strings.ContainsFunc(s, func(c rune) bool { return unicode.In(c, unicode.Cc, unicode.Zl, unicode.Zp) })
}

// SanitizeText returns s with each NUL and each byte that is not UTF-8 replaced by
// \xNN, so that PostgreSQL can store it. The result is for display: a text that
// contains \x00 literally looks the same as one that contained a NUL. A valid s is
// returned unchanged.
func SanitizeText(s string) string {
	if isText(s) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		if r == 0 || (r == utf8.RuneError && size == 1) {
			b.WriteString(`\x`)
			b.WriteString(hex.EncodeToString([]byte{s[i]}))
		} else {
			b.WriteString(s[i : i+size])
		}
		i += size
	}
	return b.String()
}

// NormalizeKey returns s as an idempotency key of at most MaxKeyBytes. A longer key,
// or one that PostgreSQL cannot store, becomes its SHA-256, so that different keys
// stay different. NormalizeKey is idempotent.
func NormalizeKey(s string) string {
	if len(s) <= MaxKeyBytes && isText(s) {
		return s
	}
	sum := sha256.Sum256([]byte(s))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// SanitizeLabel returns s as an event type or similar label: sanitized and truncated
// to MaxKeyBytes at a character boundary. The result does not keep a long s in
// memory, which may be part of a whole body.
func SanitizeLabel(s string) string {
	const enough = MaxKeyBytes + utf8.UTFMax
	if len(s) <= enough {
		return Truncate(SanitizeText(s), MaxKeyBytes)
	}
	return strings.Clone(Truncate(SanitizeText(s[:enough]), MaxKeyBytes))
}

// Truncate shortens s to at most n bytes at a character boundary.
func Truncate(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// TruncateWithEllipsis is Truncate with an ellipsis appended if s was shortened.
func TruncateWithEllipsis(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return Truncate(s, n) + "…"
}
