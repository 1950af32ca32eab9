package eventhook

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"unicode/utf8"
)

// MaxKeyBytes bounds idempotency keys, event types and the like as they are
// stored.
const MaxKeyBytes = 255

// isText reports whether PostgreSQL can hold s as text.
func isText(s string) bool {
	return utf8.ValidString(s) && strings.IndexByte(s, 0) < 0
}

// SanitizeText makes s storable as text: bytes that are not UTF-8, and NUL, become
// \xNN. It is for people to read: a text that spells \x00 looks the same as
// one that had a NUL. Without such bytes s is returned as it is.
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

// NormalizeKey makes s storable as an idempotency key of at most MaxKeyBytes. One that
// is longer, or no text, becomes its SHA-256, so that different keys stay
// different. Doing it again changes nothing.
func NormalizeKey(s string) string {
	if len(s) <= MaxKeyBytes && isText(s) {
		return s
	}
	sum := sha256.Sum256([]byte(s))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// SanitizeLabel makes s storable as an event type or the like: text, cut to at most
// MaxKeyBytes at a character's edge. Of a long text it looks at no more, and
// keeps no more alive: what a few bytes are cut from may be a whole body.
func SanitizeLabel(s string) string {
	const enough = MaxKeyBytes + utf8.UTFMax
	if len(s) <= enough {
		return Truncate(SanitizeText(s), MaxKeyBytes)
	}
	return strings.Clone(Truncate(SanitizeText(s[:enough]), MaxKeyBytes))
}

// Truncate shortens s to at most n bytes at a character's edge.
func Truncate(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// TruncateWithEllipsis cuts as Cut does, and ends what it has cut with an ellipsis.
func TruncateWithEllipsis(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return Truncate(s, n) + "…"
}
