package web

import (
	"bytes"
	"encoding/json"
	"html/template"
	"strings"
	"unicode/utf8"
)

// Limits of a text in a page, so that a page stays small whatever a sender posts.
const (
	// TextLimit is the length of the longest text that Pretty returns, in bytes.
	TextLimit = 64 << 10
	// indentDepth is the number of levels that are indented. Deeper levels follow without line
	// breaks: indentation grows with the square of the depth.
	indentDepth = 24
)

// cutNote ends a text that is cut.
const cutNote = "\n… (cut here: the text is longer than a page shows)"

// Pretty indents a JSON document; other text is returned as it is. The result is valid UTF-8. It has
// at most TextLimit bytes: a longer text is cut, and ends with a note about it.
func Pretty(raw []byte) string {
	text, isCut := Indent(raw, TextLimit-len(cutNote))
	if isCut {
		text += cutNote
	}
	return text
}

// Indent is Pretty for a limit in bytes, without the note. isCut is true if the text is only the
// beginning.
func Indent(raw []byte, limit int) (text string, isCut bool) {
	t := indenter{limit: limit}
	if json.Valid(raw) {
		t.document(raw)
	} else {
		t.write(string(raw[:min(len(raw), limit+1)]))
	}
	text = strings.ToValidUTF8(t.out.String(), "\uFFFD")
	isCut = t.isFull || len(text) > limit
	return wholeRunes(text, limit), isCut
}

// Editable indents a JSON document for a field of a form. A document whose indented form is longer
// than TextLimit stays as it is, because a form must have all of it.
func Editable(raw []byte) string {
	if text, isCut := Indent(raw, TextLimit); !isCut {
		return text
	}
	return strings.ToValidUTF8(string(raw), "\uFFFD")
}

// wholeRunes returns the beginning of a text with at most limit bytes.
func wholeRunes(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	for limit > 0 && !utf8.RuneStart(text[limit]) {
		limit--
	}
	return text[:limit]
}

// Characters of JSON that are tokens on their own, and the ones between tokens.
const (
	spaces = " \t\r\n"
	marks  = spaces + "{}[],:"
)

// indenter writes a valid JSON document with line breaks, until its text is longer than limit.
type indenter struct {
	out    strings.Builder
	limit  int
	depth  int
	isFull bool
}

func (t *indenter) write(s string) {
	t.out.WriteString(s)
	t.isFull = t.out.Len() > t.limit
}

// line begins a line, unless the level is not indented.
func (t *indenter) line() {
	if t.depth <= indentDepth {
		t.write("\n" + strings.Repeat("  ", t.depth))
	}
}

// document writes a document. Its tokens keep their bytes.
func (t *indenter) document(raw []byte) {
	for i := 0; i < len(raw) && !t.isFull; {
		size := tokenSize(raw[i:])
		token := string(raw[i : i+min(size, t.limit+1)])
		i += size
		switch token[0] {
		case ' ', '\t', '\r', '\n': // is replaced
		case '{', '[':
			i += t.open(token, raw[i:])
		case '}', ']':
			t.close(token)
		case ',':
			t.write(token)
			t.line()
		case ':':
			t.write(": ")
		default:
			t.write(token)
		}
	}
}

// open begins an object or a list. It writes an empty one whole, and returns the bytes of rest that
// belong to it.
func (t *indenter) open(token string, rest []byte) int {
	end := bytes.TrimLeft(rest, spaces)
	if end[0] == '}' || end[0] == ']' {
		t.write(token + string(end[0]))
		return len(rest) - len(end) + 1
	}
	t.depth++
	t.write(token)
	t.line()
	return 0
}

// close ends an object or a list that is not empty.
func (t *indenter) close(token string) {
	t.depth--
	if t.depth < indentDepth { // as in open
		t.line()
	}
	t.write(token)
}

// tokenSize returns the length of the first token of a part of a valid document: a string with its
// quotes, a number or word, or one character.
func tokenSize(raw []byte) int {
	switch {
	case raw[0] == '"':
		return StringSize(raw)
	case bytes.IndexByte([]byte(marks), raw[0]) >= 0:
		return 1
	}
	if end := bytes.IndexAny(raw, marks); end > 0 {
		return end
	}
	return len(raw)
}

// StringSize returns the length of the JSON string with which a text begins, with its quotes; that of
// the text if the string does not end.
func StringSize[T string | []byte](text T) int {
	for i := 1; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(text)
}

// Shown is a document in a page, as a tree and as text.
type Shown struct {
	Tree  template.HTML // "" unless the document is JSON
	Text  string
	IsCut bool // the text is only the beginning
}

// Show returns a document of size bytes. raw is all of it, or its beginning.
func Show(raw []byte, size int64) Shown {
	if int64(len(raw)) >= size {
		text, isCut := Indent(raw, TextLimit)
		return Shown{Tree(raw), text, isCut}
	}
	text, _ := Indent(WholeRunes(raw), TextLimit)
	return Shown{TreeOfStart(raw), text, true}
}

// WholeRunes returns a text that was cut without the beginning of a character at its end.
func WholeRunes(b []byte) []byte {
	for i := 1; i < utf8.UTFMax && i <= len(b); i++ {
		if last := b[len(b)-i:]; utf8.RuneStart(last[0]) && !utf8.FullRune(last) {
			return b[:len(b)-i]
		}
	}
	return b
}
