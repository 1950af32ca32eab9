package verify

import (
	"encoding/base64"
	"encoding/hex"
	"strings"
)

// encoding is how a signature or a hash is written.
type encoding int

const (
	inHex       encoding = iota
	inBase64             // with padding
	inBase64URL          // with or without padding
)

var encodings = map[string]encoding{"": inHex, "hex": inHex, "base64": inBase64, "base64url": inBase64URL}

var (
	strictBase64    = base64.StdEncoding.Strict()
	strictBase64URL = base64.RawURLEncoding.Strict()
)

// decode writes what text stands for into a buffer, which has room for two bytes
// more than most, and returns its length; 0 if text is not in this encoding or
// is longer than most bytes.
func (e encoding) decode(into []byte, text string, most int) int {
	decoder := strictBase64
	switch e {
	case inHex:
		if len(text) > hex.EncodedLen(most) {
			return 0
		}
		n, err := hex.Decode(into, []byte(text))
		if err != nil {
			return 0
		}
		return n
	case inBase64URL:
		decoder = strictBase64URL
		if bare := strings.TrimRight(text, "="); len(bare) != len(text) {
			if len(text)%4 != 0 || len(text)-len(bare) > 2 {
				return 0
			}
			text = bare
		}
	case inBase64:
	}
	if len(text) > decoder.EncodedLen(most) {
		return 0
	}
	n, err := decoder.Decode(into, []byte(text))
	if err != nil || n > most || decoder.EncodedLen(n) != len(text) { // longer if it skipped a line break
		return 0
	}
	return n
}

// isCanonical reports whether text is written in the one way that is allowed
// where the signature may be the idempotency key.
func (e encoding) isCanonical(text string) bool {
	switch e {
	case inHex:
		return strings.ToLower(text) == text
	case inBase64URL:
		return !strings.HasSuffix(text, "=")
	case inBase64:
	}
	return true
}
