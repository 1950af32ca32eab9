package api

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"

	"github.com/eventhook/eventhook"
)

// readWithRaw reads a document with a member that is passed on as it is, named by
// the steps that lead to it: "*" is any element of a list. The member costs no
// more than its bytes, and all else must fit into a small body.
func (d document[T]) readWithRaw(s *server, steps ...string) (v T, err error) {
	v, shape, err := d.shapeWithRaw(s, smallBody, steps...)
	if err != nil {
		return v, err
	}
	if hasHugeNumber(d.raw) { // many readers of JSON fail at one
		shape.Add("body", "holds a number that is too large")
		return v, malformed(shape)
	}
	return v, combinedError(shape, nil)
}

// shapeWithRaw is readWithRaw for a document of which more is checked: it returns
// what is wrong with the shape. most is the limit of all but the member.
func (d document[T]) shapeWithRaw(s *server, most int, steps ...string) (v T, shape eventhook.Faults, err error) {
	around := document[T]{without(d.raw, steps)}
	if len(around.raw) > most {
		return v, nil, tooLarge("The body without its member "+steps[len(steps)-1], int64(most))
	}
	if _, shape = around.read(s); hasMoreValues(around.raw, maxValues) {
		return v, shape, nil
	}
	_ = json.Unmarshal(d.raw, &v) // what has another shape was told
	return v, shape, nil
}

// hasHugeNumber reports whether JSON holds a number beyond what a float64 can
// hold.
func hasHugeNumber(raw []byte) bool {
	const numeral = "0123456789+-.eE"
	for len(raw) > 0 {
		switch c := raw[0]; {
		case c == '"':
			raw = raw[stringLength(raw):]
		case strings.IndexByte(numeral[:10], c) >= 0:
			rest := bytes.TrimLeft(raw, numeral)
			number := raw[:len(raw)-len(rest)]
			if _, err := strconv.ParseFloat(string(number), 64); err != nil {
				return true
			}
			raw = rest
		default:
			raw = raw[1:]
		}
	}
	return false
}

// stringLength is how many bytes the text takes with which JSON begins.
func stringLength(raw []byte) int {
	for i := 1; i < len(raw); i++ {
		switch raw[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(raw)
}

// without is a JSON document with null for the values that steps lead to.
func without(raw []byte, steps []string) []byte {
	w := nullReplacer{decoder: json.NewDecoder(bytes.NewReader(raw)), raw: raw}
	if !w.walk(steps) {
		return raw // it is not JSON
	}
	return append(w.out, raw[w.copied:]...)
}

// nullReplacer goes through a document to the values of a member.
type nullReplacer struct {
	decoder *json.Decoder
	raw     []byte
	out     []byte // raw up to copied, without the values
	copied  int
}

// walk goes through the next value, and reports whether it could be read.
func (w *nullReplacer) walk(steps []string) bool {
	if len(steps) == 0 {
		return w.replaceNext()
	}
	open, err := w.decoder.Token()
	if err != nil {
		return false
	}
	switch open {
	case json.Delim('{'), json.Delim('['):
	default:
		return true
	}
	for w.decoder.More() {
		var step any = "*"
		if open == json.Delim('{') {
			name, err := w.decoder.Token()
			if err != nil {
				return false
			}
			step = name
		}
		if step == steps[0] {
			if !w.walk(steps[1:]) {
				return false
			}
			continue
		}
		if w.decoder.Decode(new(skipped)) != nil {
			return false
		}
	}
	_, err = w.decoder.Token()
	return err == nil
}

// replaceNext writes null for the next value.
func (w *nullReplacer) replaceNext() bool {
	var size skipped
	if w.decoder.Decode(&size) != nil {
		return false
	}
	to := int(w.decoder.InputOffset())
	w.out = append(append(w.out, w.raw[w.copied:to-int(size)]...), "null"...)
	w.copied = to
	return true
}

// skipped is a JSON value of which only the length is kept.
type skipped int

// UnmarshalJSON implements json.Unmarshaler.
func (n *skipped) UnmarshalJSON(raw []byte) error {
	*n = skipped(len(raw))
	return nil
}
