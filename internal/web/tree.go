package web

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"io"
	"strings"
)

// Limits of a tree, so that a page stays small whatever a sender posts.
const (
	treeNodes    = 600
	treeDepth    = 24
	treeOpen     = 2 // levels that are open at first
	treeTextSize = 400
	treeSize     = 64 << 10 // bytes of markup
)

// errTreeEnds means that the limits of a tree are reached.
var errTreeEnds = errors.New("the tree has reached its limits")

// Tree shows a JSON document as a tree of members that open and close. The tree of a large document
// ends with a note. It returns "" if raw is not one JSON document.
func Tree(raw []byte) template.HTML {
	if !json.Valid(raw) {
		return ""
	}
	t, err := newTree(raw)
	return t.end(err != nil && !errors.Is(err, io.EOF))
}

// TreeOfStart is Tree for the beginning of a longer document. It returns "" if raw is not the
// beginning of an object or a list.
func TreeOfStart(raw []byte) template.HTML {
	raw = raw[:bytes.LastIndexByte(raw, ',')+1] // the last value can be a part of a number
	if start := bytes.TrimLeft(raw, spaces); len(start) == 0 || start[0] != '{' && start[0] != '[' {
		return ""
	}
	t, err := newTree(raw)
	if _, isWrong := errors.AsType[*json.SyntaxError](err); isWrong {
		return ""
	}
	return t.end(true)
}

func newTree(raw []byte) (*tree, error) {
	t := &tree{decoder: json.NewDecoder(bytes.NewReader(raw))}
	t.decoder.UseNumber()
	t.out.WriteString(`<div class="tree">`)
	return t, t.value("", 0)
}

// end closes the open elements.
func (t *tree) end(isCut bool) template.HTML {
	t.out.WriteString(strings.Repeat(`</details>`, t.depth))
	if isCut {
		t.out.WriteString(`<p class="muted">The tree shows the first part of this document.</p>`)
	}
	t.out.WriteString(`</div>`)
	return template.HTML(t.out.String()) //nolint:gosec // every name and value is escaped
}

type tree struct {
	decoder *json.Decoder
	out     strings.Builder
	nodes   int
	depth   int // of open details elements
}

// value writes the next value with its label, which is escaped markup.
func (t *tree) value(label string, depth int) error {
	if t.nodes++; t.nodes > treeNodes || depth > treeDepth || t.out.Len() > treeSize {
		return errTreeEnds
	}
	token, err := t.decoder.Token()
	if err != nil {
		return err
	}
	switch v := token.(type) {
	case json.Delim:
		return t.members(label, v, depth)
	case string:
		t.leaf(label, "string", `"`+cut(v)+`"`)
	case json.Number:
		t.leaf(label, "number", cut(v.String()))
	default:
		t.leaf(label, "literal", literal(v))
	}
	return nil
}

func literal(v any) string {
	if v == nil {
		return "null"
	}
	return fmt.Sprint(v)
}

func (t *tree) leaf(label, class, text string) {
	fmt.Fprintf(&t.out, `<div class="leaf">%s<span class="%s">%s</span></div>`, label, class, template.HTMLEscapeString(text))
}

func (t *tree) members(label string, open json.Delim, depth int) error {
	isOpen := ""
	if depth < treeOpen {
		isOpen = " open"
	}
	fmt.Fprintf(&t.out, `<details%s><summary>%s<span class="muted">%s</span></summary>`, isOpen, label, map[json.Delim]string{'{': "{…}", '[': "[…]"}[open])
	t.depth++
	for i := 0; t.decoder.More(); i++ {
		name := fmt.Sprint(i)
		if open == '{' {
			token, err := t.decoder.Token()
			if err != nil {
				return err
			}
			name = cut(fmt.Sprint(token))
		}
		if err := t.value(`<span class="name">`+template.HTMLEscapeString(name)+`</span> `, depth+1); err != nil {
			return err
		}
	}
	_, err := t.decoder.Token() // the closing delimiter
	t.out.WriteString(`</details>`)
	t.depth--
	return err
}

// cut shortens a long text at a rune's boundary.
func cut(s string) string {
	if len(s) <= treeTextSize {
		return s
	}
	return strings.ToValidUTF8(s[:treeTextSize], "") + "…"
}
