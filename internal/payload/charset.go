package payload

import (
	"errors"
	"strings"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/htmlindex"
	"golang.org/x/text/encoding/unicode"
)

// mark is the byte order mark in UTF-8.
const mark = "\xef\xbb\xbf"

var errCharset = errors.New("unknown charset")

// decode makes UTF-8 of a body in a charset, by the names that browsers know
// (encoding.spec.whatwg.org). No name means UTF-8, which stays as it is.
func decode(charset string, body []byte) ([]byte, error) {
	if charset == "" {
		return body, nil
	}
	e, err := htmlindex.Get(charset)
	switch {
	case err != nil || e == encoding.Replacement: // whose charsets are not safe to be read
		return nil, errCharset
	case e == unicode.UTF8:
		return body, nil
	}
	return e.NewDecoder().Bytes(body)
}

// fromUTF16 makes UTF-8 of a body that begins with UTF-16's mark or, without
// one, with one of the first characters in UTF-16.
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
