package payload

import (
	"encoding/json"

	"github.com/tidwall/gjson"
)

// DropDuplicateMembers returns a JSON view in which each object has only the first
// of the members with the same name. Paths read the first, but most JSON parsers
// would read the last. It takes linear time.
func DropDuplicateMembers(view json.RawMessage) json.RawMessage {
	c := copier{in: view, out: make([]byte, 0, len(view))}
	c.value(true)
	return c.out
}

// copier copies valid JSON without white space and dropped members. Its recursion
// is limited by the depth of the view.
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

// next skips white space and returns the next byte.
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

// scalar reads a string, a number or a literal.
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
