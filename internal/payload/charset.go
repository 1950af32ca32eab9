package payload

import (
	"errors"
	"strings"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/htmlindex"
	"golang.org/x/text/encoding/unicode"
)

// byteOrderMark is the byte order mark of UTF-8.
const byteOrderMark = "\xef\xbb\xbf"

var errCharset = errors.New("unknown charset")

// decode converts a body from a charset to UTF-8. Charsets have the names of the
// WHATWG encoding standard (encoding.spec.whatwg.org). Without a charset, the body
// is returned unchanged.
func decode(charset string, body []byte) ([]byte, error) {
	if charset == "" {
		return body, nil
	}
	e, err := htmlindex.Get(charset)
	switch {
	case err != nil || e == encoding.Replacement: // the standard's label for unsafe charsets
		return nil, errCharset
	case e == unicode.UTF8:
		return body, nil
	}
	return e.NewDecoder().Bytes(body)
}

// fromUTF16 converts a UTF-16 body to UTF-8. A body is UTF-16 if it begins with a
// UTF-16 byte order mark, or with one of the characters in first, encoded in
// UTF-16. ok is false for other bodies.
func fromUTF16(body []byte, first string) (text []byte, ok bool) {
	if len(body) < 2 {
		return nil, false
	}
	order := unicode.LittleEndian
	switch a, b := body[0], body[1]; {
	case a == 0xff && b == 0xfe:
	case a == 0xfe && b == 0xff:
		order = unicode.BigEndian
	case b == 0 && a != 0 && strings.IndexByte(first, a) >= 0:
	case a == 0 && b != 0 && strings.IndexByte(first, b) >= 0:
		order = unicode.BigEndian
	default:
		return nil, false
	}
	text, err := unicode.UTF16(order, unicode.UseBOM).NewDecoder().Bytes(body)
	return text, err == nil
}
