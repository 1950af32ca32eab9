package payload

import (
	"bytes"
	"unicode/utf8"

	"github.com/tidwall/gjson"
)

// firstOfJSON are the possible first characters of JSON.
const firstOfJSON = "{[\"-0123456789tfn \t\r\n"

// checkedJSON returns the body as UTF-8 if it is one JSON value whose depth is at
// most maxDepth. RFC 8259, section 8.1, requires UTF-8 without a byte order mark.
// checkedJSON also accepts this mark, which it removes, and UTF-16, which it converts.
// Invalid UTF-8 is replaced by U+FFFD.
func checkedJSON(body []byte) ([]byte, error) {
	if text, ok := fromUTF16(body, firstOfJSON); ok {
		body = text
	}
	body = bytes.TrimPrefix(body, []byte(byteOrderMark))
	if looksLikeJSON(body) && IsDeeper(body, maxDepth) { // other bodies are not nested
		return nil, errDeepJSON
	}
	if !gjson.ValidBytes(body) {
		return nil, errMalformedJSON
	}
	if !utf8.Valid(body) {
		body = bytes.ToValidUTF8(body, []byte("\uFFFD"))
	}
	return body, nil
}

// maxDepth is the maximum nesting of JSON. Parsers recurse, and a body of a million
// brackets must not exhaust the stack.
const maxDepth = 1000

// IsDeeper reports whether lists and objects of JSON are nested deeper than limit.
func IsDeeper(body []byte, limit int) bool {
	if bytes.Count(body, []byte("["))+bytes.Count(body, []byte("{")) <= limit {
		return false
	}
	depth, inString := 0, false
	for i := 0; i < len(body); i++ {
		switch c := body[i]; {
		case inString && c == '\\':
			i++
		case c == '"':
			inString = !inString
		case inString:
		case c == '[' || c == '{':
			if depth++; depth > limit {
				return true
			}
		case c == ']' || c == '}':
			depth--
		}
	}
	return false
}
