package payload

import "strings"

// field is a name and a value of a JSON object. Names can repeat.
type field[V any] struct {
	name  string
	value V
}

// appendObject appends fields as a JSON object. Members are in the order of the
// first occurrence of their name. Several values of one name become an array in
// their order.
func appendObject[V any](b []byte, fields []field[V], appendValue func([]byte, V) []byte) []byte {
	place := make(map[string]int, len(fields))
	var members []field[[]V]
	for _, f := range fields {
		i, again := place[f.name]
		if !again {
			i = len(members)
			place[f.name], members = i, append(members, field[[]V]{name: f.name})
		}
		members[i].value = append(members[i].value, f.value)
	}
	b = append(b, '{')
	for i, m := range members {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(AppendJSONString(b, m.name), ':')
		b = appendOneOrMore(b, m.value, appendValue)
	}
	return append(b, '}')
}

func appendOneOrMore[V any](b []byte, values []V, appendValue func([]byte, V) []byte) []byte {
	if len(values) == 1 {
		return appendValue(b, values[0])
	}
	for i, v := range values {
		if i == 0 {
			b = append(b, '[')
		} else {
			b = append(b, ',')
		}
		b = appendValue(b, v)
	}
	return append(b, ']')
}

// AppendJSONString appends s as a JSON string. The string is at most six times as
// long as s, and at most twice if s has no control characters. Bytes that are not
// UTF-8 are replaced by U+FFFD.
func AppendJSONString(b []byte, s string) []byte {
	const hex = "0123456789abcdef"
	s = strings.ToValidUTF8(s, "\uFFFD")
	b = append(b, '"')
	from := 0
	for i := range len(s) {
		c := s[i]
		if c >= ' ' && c != '"' && c != '\\' {
			continue
		}
		b = append(b, s[from:i]...)
		from = i + 1
		switch c {
		case '"', '\\':
			b = append(b, '\\', c)
		case '\n':
			b = append(b, `\n`...)
		case '\r':
			b = append(b, `\r`...)
		case '\t':
			b = append(b, `\t`...)
		default:
			b = append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&0xf])
		}
	}
	return append(append(b, s[from:]...), '"')
}
