package payload

import "strings"

// field is one of several values that become the members of a JSON object.
type field[V any] struct {
	name  string
	value V
}

// appendObject appends fields as an object. Its members stand in the order in
// which their names came first; what came under one name more than once is an
// array, in the order in which it came.
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

// AppendJSONString appends a text as a JSON string, at most six times its size, and
// twice where it has no control characters. Bytes that are not UTF-8 are
// replaced.
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
