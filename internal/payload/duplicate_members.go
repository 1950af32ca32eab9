package payload

import (
	"encoding/json"

	"github.com/tidwall/gjson"
)

// DropDuplicateMembers is a JSON view without those members of objects that have the
// name of an earlier one. Paths see the first of them, but most readers of JSON
// would see the last. It takes time in proportion to the view.
func DropDuplicateMembers(view json.RawMessage) json.RawMessage {
	c := copier{in: view, out: make([]byte, 0, len(view))}
	c.value(true)
	return c.out
}

// copier copies valid JSON, but for white space and what it leaves out. It
// nests no deeper than the view does.
type copier struct {
	in, out []byte
	at      int
}

func (c *copier) value(keep bool) {
	switch c.next() {
	case '{':
		c.object(keep)
	case '[':
		c.byte(keep)
		for c.next() != ']' {
			c.value(keep)
			c.comma(keep)
		}
		c.byte(keep)
	default:
		c.copy(c.scalar(), keep)
	}
}

func (c *copier) object(keep bool) {
	seen := map[string]bool{}
	c.byte(keep)
	for first := true; c.next() != '}'; {
		name := c.scalar()
		key := gjson.ParseBytes(name).Str
		kept := keep && !seen[key]
		seen[key] = true
		if kept && !first {
			c.out = append(c.out, ',')
		}
		first = first && !kept
		c.copy(name, kept)
		c.next()
		c.byte(kept) // the colon
		c.value(kept)
		if c.next() == ',' {
			c.at++
		}
	}
	c.byte(keep)
}

// next is the byte after white space.
func (c *copier) next() byte {
	for {
		switch b := c.in[c.at]; b {
		case ' ', '\t', '\r', '\n':
			c.at++
		default:
			return b
		}
	}
}

func (c *copier) byte(keep bool) {
	c.copy(c.in[c.at:c.at+1], keep)
	c.at++
}

func (c *copier) comma(keep bool) {
	if c.next() == ',' {
		c.byte(keep)
	}
}

func (c *copier) copy(b []byte, keep bool) {
	if keep {
		c.out = append(c.out, b...)
	}
}

// scalar reads a text, a number or a word.
func (c *copier) scalar() []byte {
	from := c.at
	isText := c.in[from] == '"'
	for c.at++; c.at < len(c.in); c.at++ {
		switch b := c.in[c.at]; {
		case isText && b == '\\':
			c.at++
		case isText && b == '"':
			c.at++
			return c.in[from:c.at]
		case isText:
		case b == ',' || b == ']' || b == '}' || b == ' ' || b == '\t' || b == '\r' || b == '\n':
			return c.in[from:c.at]
		}
	}
	return c.in[from:c.at]
}
