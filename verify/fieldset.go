package verify

import (
	"strings"

	"github.com/tidwall/gjson"
)

// fieldSet finds a fixed set of fields of a JSON object in one pass over its
// bytes, for any number and depth of fields. It is not modified after add.
type fieldSet struct {
	root  *fieldNode
	nodes int
}

// fieldNode is a member on the path to a field, or a field.
type fieldNode struct {
	number  int
	members map[string]*fieldNode
}

// foundField is the JSON text of a member and the number of its occurrences. If
// there are several, the text is that of the first.
type foundField struct {
	raw   string
	times int
}

func newFieldSet() *fieldSet { return &fieldSet{root: &fieldNode{number: -1}} }

// add adds the field at path and returns the numbers of the members on the path.
func (s *fieldSet) add(path []string) []int {
	var numbers []int
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
		numbers = append(numbers, next.number)
		at = next
	}
	return numbers
}

// fieldScan is the state of one pass.
type fieldScan struct {
	text  string // valid JSON
	at    int
	found []foundField
}

// scan finds the fields in valid JSON. It reuses the memory of found.
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

// value scans one value. n has the members to find in it; nil: none.
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

// member scans the value of a member. The values of repeated members are skipped.
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

// name scans and returns the name of a member.
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

// skip skips a value.
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

// string skips a string.
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
		p.at++ // the escaped character
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

// byte returns the next byte, 0 at the end.
func (p *fieldScan) byte() byte {
	if p.at < len(p.text) {
		return p.text[p.at]
	}
	return 0
}

// alternatives are the possible places of a field, each as the numbers of the
// members on its path.
type alternatives [][]int

func (s *fieldSet) addAll(paths fieldPath) alternatives {
	var places alternatives
	for _, path := range paths {
		places = append(places, s.add(path))
	}
	return places
}

// text returns the string, number or boolean at the first of the places that has
// one, and "" if there is none. It fails if a member on the path is repeated.
func (a alternatives) text(found []foundField) (string, *Error) {
	for _, numbers := range a {
		raw, err := foundAt(found, numbers)
		if err != nil {
			return "", err
		}
		if text, ok := scalarText(raw); ok {
			return text, nil
		}
	}
	return "", nil
}

// foundAt returns the JSON text of a member, "" if it is absent.
func foundAt(found []foundField, numbers []int) (raw string, err *Error) {
	for _, n := range numbers {
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

// scalarText returns the value of a JSON string, number or boolean. ok is false
// for any other value.
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
