package api

import (
	"bytes"
	"encoding/json"
)

// scanner parses JSON (RFC 8259) in place, without copies. It accepts the same
// documents as encoding/json, except that it refuses nesting deeper than maxDepth.
// After a method has returned false, the position is undefined.
type scanner struct {
	raw []byte
	at  int
	// isStrict restricts skipValue to documents that every JSON parser reads in the same
	// way: no object has a duplicate or escaped name, and every number fits into a
	// float64. It also refuses some valid documents: objects with more than maxNames
	// members, and numbers with an exponent or more than maxDigits characters.
	isStrict bool

	open  []openContainer // objects and arrays whose end was not read yet
	names []jsonString    // in strict mode: the names of members of the open objects
}

// openContainer is an object or array whose end was not read yet.
type openContainer struct {
	end   byte // '}' or ']'
	names int  // index of its first name in scanner.names
}

// jsonString is a string of a document, without its quotes.
type jsonString struct {
	raw       []byte
	isEscaped bool
}

const (
	maxDepth  = 9000 // encoding/json: 10 000
	maxNames  = 32   // in strict mode: names per object
	maxDigits = 300  // in strict mode: characters per number
)

// decoded returns the string with its escapes resolved.
func (t jsonString) decoded() (s string) {
	if !t.isEscaped {
		return string(t.raw)
	}
	quoted := append(append([]byte{'"'}, t.raw...), '"')
	_ = json.Unmarshal(quoted, &s) // the scanner has checked it
	return s
}

// next skips white space and returns the next byte without consuming it; 0 at the
// end.
func (s *scanner) next() byte {
	for ; s.at < len(s.raw); s.at++ {
		switch c := s.raw[s.at]; c {
		case ' ', '\t', '\r', '\n':
		default:
			return c
		}
	}
	return 0
}

// consume skips white space and consumes the next byte if it is c.
func (s *scanner) consume(c byte) bool {
	if s.next() != c || s.at == len(s.raw) {
		return false
	}
	s.at++
	return true
}

// isAtEnd reports whether only white space is left.
func (s *scanner) isAtEnd() bool {
	s.next()
	return s.at == len(s.raw)
}

// member consumes the name of a member and the colon.
func (s *scanner) member() (name jsonString, ok bool) {
	if s.next() != '"' {
		return name, false
	}
	name, ok = s.string()
	return name, ok && s.consume(':')
}

// valueBytes consumes a value and returns its bytes.
func (s *scanner) valueBytes() (raw []byte, ok bool) {
	s.next()
	from := s.at
	ok = s.skipValue()
	return s.raw[from:s.at:s.at], ok
}

// skipValue consumes a value. It uses no recursion, so that nesting costs no stack.
func (s *scanner) skipValue() bool {
	s.open, s.names = s.open[:0], s.names[:0]
	for {
		isWhole, ok := s.beginValue()
		if !ok {
			return false
		}
		for isWhole {
			if len(s.open) == 0 {
				return true
			}
			if isWhole, ok = s.endValue(); !ok {
				return false
			}
		}
	}
}

// beginValue consumes a scalar, or the beginning of an object or array up to its
// first value. isWhole: the value has ended.
func (s *scanner) beginValue() (isWhole, ok bool) {
	switch s.next() {
	case '{':
		return s.beginContainer('}')
	case '[':
		return s.beginContainer(']')
	case '"':
		_, ok = s.string()
	case 't':
		ok = s.literal("true")
	case 'f':
		ok = s.literal("false")
	case 'n':
		ok = s.literal("null")
	default:
		ok = s.number()
	}
	return true, ok
}

func (s *scanner) beginContainer(end byte) (isWhole, ok bool) {
	if len(s.open) == maxDepth {
		return false, false
	}
	s.at++
	if s.next() == end {
		s.at++
		return true, true
	}
	s.open = append(s.open, openContainer{end, len(s.names)})
	return false, end == ']' || s.memberName()
}

// memberName consumes the name of a member within a value. In strict mode it
// compares the name with the names before it.
func (s *scanner) memberName() bool {
	name, ok := s.member()
	if !ok || !s.isStrict {
		return ok
	}
	others := s.names[s.open[len(s.open)-1].names:]
	if name.isEscaped || len(others) == maxNames {
		return false
	}
	for _, other := range others {
		if bytes.Equal(other.raw, name.raw) {
			return false
		}
	}
	s.names = append(s.names, name)
	return true
}

// endValue consumes the text after a value within an object or array: the end of the
// container, or a comma and, in an object, the next name. isWhole: the container has
// ended.
func (s *scanner) endValue() (isWhole, ok bool) {
	in := s.open[len(s.open)-1]
	switch c := s.next(); {
	case s.at == len(s.raw):
		return false, false
	case c == in.end:
		s.at++
		s.open, s.names = s.open[:len(s.open)-1], s.names[:in.names]
		return true, true
	case c != ',':
		return false, false
	}
	s.at++
	return false, in.end == ']' || s.memberName()
}

func (s *scanner) literal(word string) bool {
	if !bytes.HasPrefix(s.raw[s.at:], []byte(word)) {
		return false
	}
	s.at += len(word)
	return true
}

// string consumes a string. The scanner must be at its opening quote.
func (s *scanner) string() (t jsonString, ok bool) {
	s.at++
	from := s.at
	for s.at < len(s.raw) {
		switch c := s.raw[s.at]; {
		case c == '"':
			t.raw = s.raw[from:s.at]
			s.at++
			return t, true
		case c == '\\':
			t.isEscaped = true
			if !s.escape() {
				return t, false
			}
		case c < ' ':
			return t, false
		default:
			s.at++
		}
	}
	return t, false
}

// escape consumes a backslash and the escaped character.
func (s *scanner) escape() bool {
	const short, long = 2, 6 // \n and \u000a
	rest := s.raw[s.at:]
	if len(rest) < short {
		return false
	}
	switch rest[1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		s.at += short
		return true
	case 'u':
	default:
		return false
	}
	if len(rest) < long {
		return false
	}
	for _, c := range rest[short:long] {
		if !isHexDigit(c) {
			return false
		}
	}
	s.at += long
	return true
}

func isHexDigit(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}

func (s *scanner) number() bool {
	from := s.at
	if s.at < len(s.raw) && s.raw[s.at] == '-' {
		s.at++
	}
	first := s.at
	n := s.digits()
	if n == 0 || n > 1 && s.raw[first] == '0' {
		return false
	}
	if s.at < len(s.raw) && s.raw[s.at] == '.' {
		if s.at++; s.digits() == 0 {
			return false
		}
	}
	if s.at < len(s.raw) && s.raw[s.at]|0x20 == 'e' {
		if s.isStrict {
			return false
		}
		s.at++
		if s.at < len(s.raw) && (s.raw[s.at] == '+' || s.raw[s.at] == '-') {
			s.at++
		}
		if s.digits() == 0 {
			return false
		}
	}
	return !s.isStrict || s.at-from <= maxDigits
}

func (s *scanner) digits() (n int) {
	from := s.at
	for s.at < len(s.raw) && '0' <= s.raw[s.at] && s.raw[s.at] <= '9' {
		s.at++
	}
	return s.at - from
}
