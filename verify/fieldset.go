package verify

import (
	"strings"

	"github.com/tidwall/gjson"
)

// fieldSet finds a fixed set of fields in a JSON object in one pass over its
// bytes, however many fields there are and however deep they lie. It is
// immutable.
type fieldSet struct {
	root  *fieldNode
	nodes int
}

// fieldNode is a member that leads to a field, or is one.
type fieldNode struct {
	number  int
	members map[string]*fieldNode
}

// foundField is the text of a member in the JSON, and how often it is there. If
// it is there more than once, the text is the first one's.
type foundField struct {
	raw   string
	times int
}

func newFieldSet() *fieldSet { return &fieldSet{root: &fieldNode{number: -1}} }

// add adds the field at path and returns the numbers of the members on the way.
func (s *fieldSet) add(path []string) []int {
	var way []int
	at := s.root
	for _, name := range path {
		next := at.members[name]
		if next == nil {
			if at.members == nil {
				at.members = map[string]*fieldNode{}
			}
			next = &fieldNode{number: s.nodes}
			at.members[name] = next
			s.nodes++
		}
		way = append(way, next.number)
		at = next
	}
	return way
}

// fieldScan is one pass of a fieldSet over a text.
type fieldScan struct {
	text  string // valid JSON
	at    int
	found []foundField
}

// scan looks for the fields in valid JSON. It reuses found.
func (s *fieldSet) scan(found []foundField, text string) []foundField {
	if cap(found) < s.nodes {
		found = make([]foundField, s.nodes)
	}
	found = found[:s.nodes]
	clear(found)
	p := fieldScan{text: text, found: found}
	p.space()
	p.value(s.root)
	return found
}

// value passes one value. n is nil, or what is looked for in it.
func (p *fieldScan) value(n *fieldNode) {
	if n != nil && len(n.members) > 0 && p.byte() == '{' {
		p.object(n)
		return
	}
	p.skip()
}

func (p *fieldScan) object(n *fieldNode) {
	p.at++ // {
	for p.space(); p.at < len(p.text) && p.byte() != '}'; p.space() {
		if p.byte() == ',' {
			p.at++
			p.space()
		}
		member := n.members[p.name()]
		p.space()
		p.at++ // :
		p.space()
		p.member(member)
	}
	p.at++ // }
}

// member passes the value of a member. What is repeated is not looked into again.
func (p *fieldScan) member(n *fieldNode) {
	if n == nil {
		p.skip()
		return
	}
	f, start := &p.found[n.number], p.at
	if f.times++; f.times > 1 {
		p.skip()
		return
	}
	p.value(n)
	f.raw = p.text[start:p.at]
}

// name passes the name of a member.
func (p *fieldScan) name() string {
	start := p.at
	p.string()
	raw := p.text[start:p.at]
	if len(raw) < 2 {
		return ""
	}
	if strings.IndexByte(raw, '\\') >= 0 {
		return gjson.Parse(raw).Str
	}
	return raw[1 : len(raw)-1]
}

// skip passes a value without looking into it.
func (p *fieldScan) skip() {
	for depth := 0; p.at < len(p.text); {
		switch p.byte() {
		case '"':
			p.string()
		case '{', '[':
			depth++
			p.at++
			continue
		case '}', ']':
			depth--
			p.at++
		case ' ', '\t', '\r', '\n', ',', ':':
			p.at++
			continue
		default:
			for p.at < len(p.text) && strings.IndexByte(" \t\r\n,:]}", p.byte()) < 0 {
				p.at++
			}
		}
		if depth <= 0 {
			return
		}
	}
}

// string passes a string.
func (p *fieldScan) string() {
	for p.at++; p.at < len(p.text); p.at++ {
		i := strings.IndexAny(p.text[p.at:], `"\`)
		if i < 0 {
			break
		}
		p.at += i
		if p.byte() == '"' {
			p.at++
			return
		}
		p.at++ // what is escaped
	}
	p.at = len(p.text)
}

func (p *fieldScan) space() {
	for p.at < len(p.text) {
		switch p.byte() {
		case ' ', '\t', '\r', '\n':
			p.at++
		default:
			return
		}
	}
}

// byte is the next byte, 0 at the end.
func (p *fieldScan) byte() byte {
	if p.at < len(p.text) {
		return p.text[p.at]
	}
	return 0
}

// alternatives are the ways to the places where a field may be.
type alternatives [][]int

func (s *fieldSet) addAll(paths fieldPath) alternatives {
	var ways alternatives
	for _, path := range paths {
		ways = append(ways, s.add(path))
	}
	return ways
}

// text is the text, number or truth value at the first of some places that has
// one, "" if there is none. It fails if a member on the way is repeated.
func (a alternatives) text(found []foundField) (string, *Error) {
	for _, way := range a {
		raw, err := foundAt(found, way)
		if err != nil {
			return "", err
		}
		if text, ok := scalarText(raw); ok {
			return text, nil
		}
	}
	return "", nil
}

// foundAt is the JSON of a member, "" if it is absent.
func foundAt(found []foundField, way []int) (raw string, err *Error) {
	for _, n := range way {
		switch f := &found[n]; f.times {
		case 0:
			return "", nil
		case 1:
			raw = f.raw
		default:
			return "", errRepeated
		}
	}
	return raw, nil
}

// scalarText is what a JSON text, number or truth value says. ok is false for
// anything else.
func scalarText(raw string) (text string, ok bool) {
	switch v := gjson.Parse(raw); {
	case raw == "", v.IsObject(), v.IsArray(), v.Type == gjson.Null:
		return "", false
	case v.Type == gjson.Number:
		return v.Raw, true
	default:
		return v.String(), true
	}
}
