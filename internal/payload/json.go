package payload

import (
	"bytes"
	"unicode/utf8"

	"github.com/tidwall/gjson"
)

// firstOfJSON are the characters that JSON can begin with.
const firstOfJSON = "{[\"-0123456789tfn \t\r\n"

// checkedJSON returns the body if it is one JSON value of bearable depth, in
// UTF-8. RFC 8259, section 8.1, asks senders for that, without a mark at the
// start; a mark is dropped, UTF-16 converted, and what is no character
// replaced.
func checkedJSON(body []byte) ([]byte, error) {
	if text, ok := fromUTF16(body, firstOfJSON); ok {
		body = text
	}
	body = bytes.TrimPrefix(body, []byte(mark))
	if looksLikeJSON(body) && tooDeep(body) { // anything else has no depth
		return nil, errDeepJSON
	}
	if !gjson.ValidBytes(body) {
		return nil, errNoJSON
	}
	if !utf8.Valid(body) {
		body = bytes.ToValidUTF8(body, []byte("\uFFFD"))
	}
	return body, nil
}

// maxDepth is how deep JSON may nest to be looked into. Parsers recurse; a
// body of a million brackets must not take the process down.
const maxDepth = 1000

func tooDeep(body []byte) bool {
	if bytes.Count(body, []byte("["))+bytes.Count(body, []byte("{")) <= maxDepth {
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
			if depth++; depth > maxDepth {
				return true
			}
		case c == ']' || c == '}':
			depth--
		}
	}
	return false
}
