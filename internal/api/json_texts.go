package api

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/eventhook/eventhook"
)

// checkTexts tells what readers of JSON take silently, and each in its own way:
// members that an object has twice, and texts that are not UTF-8. Who signs or
// checks such a document may read another one than we do. raw must be JSON; its
// depth costs no stack.
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

// textChecker goes through a document token by token.
type textChecker struct {
	decoder *json.Decoder
	open    []level // objects and lists that have not ended
	faults  eventhook.Faults
}

// level is an object or, without names, a list that is being read.
type level struct {
	names map[string]bool // that the object has had
	name  string          // of the member that is read
	named bool            // its name has been read, and its value comes
	index int             // of the list's element that is read
}

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
		w.faults.Add(w.place(), "is not UTF-8")
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
		w.faults.Add(w.place(), "has a name that is not UTF-8")
	case in.names[name]:
		w.faults.Add(w.place(), "is given twice")
	}
	in.names[name] = true
}

// place is where the walk is, no longer than it is shown.
func (w *textChecker) place() string {
	const most = 300
	var at strings.Builder
	at.WriteString("body")
	for _, l := range w.open {
		if at.Len() > most {
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
