package api

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/eventhook/eventhook"
)

// checkTexts returns faults for input that JSON parsers accept silently and
// interpret differently: duplicate members, and strings that are not UTF-8. A party
// that signs or verifies such a document may read another content than the gateway.
// raw must be JSON. Nesting costs no stack.
func checkTexts(raw []byte) eventhook.Faults {
	w := textChecker{decoder: json.NewDecoder(bytes.NewReader(raw))}
	w.decoder.UseNumber()
	for len(w.faults) < maxFaults {
		from := w.decoder.InputOffset()
		token, err := w.decoder.Token()
		if err != nil { // the end
			break
		}
		w.check(token, utf8.Valid(raw[from:w.decoder.InputOffset()]))
	}
	return w.faults
}

// textChecker walks through a document token by token.
type textChecker struct {
	decoder *json.Decoder
	open    []level // objects and arrays whose end was not read yet
	faults  eventhook.Faults
}

// level is an object or, without names, an array that is being read.
type level struct {
	names map[string]bool // names of the object so far
	name  string          // name of the current member
	named bool            // the name was read, the value follows
	index int             // of the current element of the array
}

// check processes the next token. isUTF8 tells whether the bytes of the token were
// UTF-8.
func (w *textChecker) check(token json.Token, isUTF8 bool) {
	switch token {
	case json.Delim('}'), json.Delim(']'):
		w.open = w.open[:len(w.open)-1]
		return
	}
	if name, ok := token.(string); ok && w.expectsName() {
		w.checkName(name, isUTF8)
		return
	}
	if last := len(w.open) - 1; last >= 0 {
		w.open[last].named = false
		w.open[last].index++
	}
	if !isUTF8 {
		w.faults.Add(w.location(), "is not UTF-8")
	}
	switch token {
	case json.Delim('{'):
		w.open = append(w.open, level{names: map[string]bool{}})
	case json.Delim('['):
		w.open = append(w.open, level{index: -1})
	}
}

func (w *textChecker) expectsName() bool {
	last := len(w.open) - 1
	return last >= 0 && w.open[last].names != nil && !w.open[last].named
}

func (w *textChecker) checkName(name string, isUTF8 bool) {
	in := &w.open[len(w.open)-1]
	in.name, in.named = name, true
	switch {
	case !isUTF8:
		w.faults.Add(w.location(), "has a name that is not UTF-8")
	case in.names[name]:
		w.faults.Add(w.location(), "is given twice")
	}
	in.names[name] = true
}

// location returns the location of the current token, truncated to what readable
// shows.
func (w *textChecker) location() string {
	const maxBytes = 300
	var at strings.Builder
	at.WriteString("body")
	for _, l := range w.open {
		if at.Len() > maxBytes {
			break
		}
		if l.names != nil {
			at.WriteString("." + l.name)
		} else {
			at.WriteString("[" + strconv.Itoa(l.index) + "]")
		}
	}
	return readable(at.String())
}
