package mcp

import (
	"bytes"
	"encoding/json"
	"fmt"
	"unicode/utf8"
)

const (
	maxAnswer = 64 << 10 // bytes of an answer
	maxField  = 16 << 10 // bytes of a member of an object, and of an item of a list
	// reserve is the space that each object and list keeps for the note that it was cut, and that
	// the object around a page keeps for next_cursor.
	reserve = 256
)

// cutter copies a JSON value and leaves out the parts beyond a limit. It keeps the order of members.
// A text in square brackets replaces a missing part, so that the copy is JSON, too.
type cutter struct {
	in    *json.Decoder
	out   bytes.Buffer
	isCut bool
	err   error // first error of in
}

// cut returns a copy of JSON of at most limit bytes, and whether something is missing in it.
func cut(raw []byte, limit int) (copied []byte, isCut bool, err error) {
	c := &cutter{in: json.NewDecoder(bytes.NewReader(raw))}
	c.in.UseNumber()
	c.value(c.token(), limit, true)
	return c.out.Bytes(), c.isCut, c.err
}

// token returns the next token, or nil after an error.
func (c *cutter) token() json.Token {
	if c.err != nil {
		return nil
	}
	t, err := c.in.Token()
	if err != nil {
		c.err = fmt.Errorf("read the answer of the gateway: %w", err)
	}
	return t
}

// more reports whether the current object or list has another member or item.
func (c *cutter) more() bool { return c.err == nil && c.in.More() }

// value copies the value that begins with a token in at most limit bytes.
func (c *cutter) value(first json.Token, limit int, isOutermost bool) {
	delim, isComposite := first.(json.Delim)
	switch {
	case !isComposite:
		c.scalar(first, limit)
	case limit < 2*reserve:
		c.skip(first)
		c.note("left out")
	case delim == '{':
		c.object(limit, isOutermost)
	default:
		c.list(limit)
	}
}

// object copies the members of an object. A member that is an object or a list gets at most half
// of the space that is left, so that the members after it have space, too. The items of a page get
// all of it.
func (c *cutter) object(limit int, isOutermost bool) {
	end := c.out.Len() + limit - reserve
	c.out.WriteByte('{')
	for n := 0; c.more(); n++ {
		name, _ := c.token().(string)
		first := c.token()
		space := end - c.out.Len() - len(encode(name))
		if space < reserve {
			c.skip(first)
			c.separate(n)
			c.out.WriteString(`"[cut]":`)
			c.note("%d more members are left out", 1+c.skipRest(true))
			break
		}
		c.separate(n)
		c.out.Write(encode(name))
		c.out.WriteByte(':')
		switch _, isComposite := first.(json.Delim); {
		case isOutermost && name == "items":
		case isComposite:
			space = min(space/2, maxField)
		default:
			space = min(space, maxField)
		}
		c.value(first, space, false)
	}
	c.token()
	c.out.WriteByte('}')
}

// list copies the items of a list. It leaves out an item that the items before it leave not enough
// space for, and the items after it.
func (c *cutter) list(limit int) {
	end := c.out.Len() + limit - reserve
	c.out.WriteByte('[')
	for n := 0; c.more(); n++ {
		start, wasCut := c.out.Len(), c.isCut
		c.separate(n)
		space := end - c.out.Len()
		c.isCut = false
		c.value(c.token(), min(space, maxField), false)
		if c.isCut && n > 0 && space < maxField {
			c.out.Truncate(start)
			c.separate(n)
			c.note("%d more items are left out", 1+c.skipRest(false))
			break
		}
		c.isCut = c.isCut || wasCut
	}
	c.token()
	c.out.WriteByte(']')
}

// separate writes the comma before the member or item n.
func (c *cutter) separate(n int) {
	if n > 0 {
		c.out.WriteByte(',')
	}
}

// scalar copies a string, a number, true, false or null.
func (c *cutter) scalar(t json.Token, limit int) {
	encoded := encode(t)
	if len(encoded) <= limit {
		c.out.Write(encoded)
		return
	}
	c.isCut = true
	c.out.Write(shorten(fmt.Sprint(t), limit))
}

// shorten returns the JSON of the beginning of a text, in at most limit bytes, with a note.
func shorten(s string, limit int) []byte {
	note := fmt.Sprintf("[the first %%d of %d bytes]", len(s))
	for kept := min(len(s), max(limit-len(note), 0)); ; kept /= 2 {
		for kept > 0 && kept < len(s) && !utf8.RuneStart(s[kept]) {
			kept--
		}
		encoded := encode(s[:kept] + fmt.Sprintf(note, kept))
		if len(encoded) <= limit || kept == 0 {
			return encoded
		}
	}
}

// skip reads the rest of a value that begins with a token.
func (c *cutter) skip(first json.Token) {
	for depth := nesting(first); depth > 0 && c.err == nil; {
		depth += nesting(c.token())
	}
}

// nesting returns 1 for a token that begins an object or list, -1 for one that ends it, else 0.
func nesting(t json.Token) int {
	switch t {
	case json.Delim('{'), json.Delim('['):
		return 1
	case json.Delim('}'), json.Delim(']'):
		return -1
	}
	return 0
}

// skipRest reads the rest of the current object or list, and returns the number of its members
// or items.
func (c *cutter) skipRest(isObject bool) (n int) {
	for ; c.more(); n++ {
		if isObject {
			c.token()
		}
		c.skip(c.token())
	}
	return n
}

// note writes a text in place of a value that is missing.
func (c *cutter) note(format string, args ...any) {
	c.isCut = true
	c.out.Write(encode("[" + fmt.Sprintf(format, args...) + "]"))
}

// encode returns the JSON of a value that has one, without escapes for HTML.
func encode(v any) []byte {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return []byte("null")
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n"))
}
