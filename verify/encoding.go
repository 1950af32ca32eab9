package verify

import (
	"encoding/base64"
	"encoding/hex"
	"strings"
)

// encoding is the encoding of a signature or hash in a request.
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

// decode decodes text into a buffer of at least maxSize+2 bytes and returns the
// length. It returns 0 if text is not in this encoding or longer than maxSize
// bytes.
func (e encoding) decode(into []byte, text string, maxSize int) int {
	decoder := strictBase64
	switch e {
	case inHex:
		if len(text) > hex.EncodedLen(maxSize) {
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
	if len(text) > decoder.EncodedLen(maxSize) {
		return 0
	}
	n, err := decoder.Decode(into, []byte(text))
	if err != nil || n > maxSize || decoder.EncodedLen(n) != len(text) { // the decoder skips line breaks
		return 0
	}
	return n
}

// isCanonical reports whether text is the canonical encoding of its bytes. A
// signature that can be the idempotency key must be canonical, so that one
// signature is one key.
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

// encode returns raw in this encoding, in its canonical form.
func (e encoding) encode(raw []byte) string {
	switch e {
	case inBase64:
		return strictBase64.EncodeToString(raw)
	case inBase64URL:
		return strictBase64URL.EncodeToString(raw)
	default: // inHex
		return hex.EncodeToString(raw)
	}
}
