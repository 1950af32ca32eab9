package api

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"

	"github.com/eventhook/eventhook"
)

// readWithRaw decodes a document with a member whose value is stored unparsed, such
// as an output. The path leads to the member; "*" stands for every element of a
// list. The value of the member costs no more memory than its bytes. The rest of the
// document must fit into smallBody.
func (d document[T]) readWithRaw(s *server, path ...string) (v T, err error) {
	v, shape, err := d.shapeWithRaw(s, smallBody, path...)
	if err != nil {
		return v, err
	}
	if hasHugeNumber(d.raw) { // many JSON parsers fail at such a number
		shape.Add("body", "contains a number that is too large")
		return v, malformed(shape)
	}
	return v, combinedError(shape, nil)
}

// shapeWithRaw is readWithRaw for documents that the caller checks further. It
// returns the faults of the shape instead of an error for them. restLimit bounds the
// bytes of the document without the member.
func (d document[T]) shapeWithRaw(s *server, restLimit int, path ...string) (v T, shape eventhook.Faults, err error) {
	around := document[T]{without(d.raw, path)}
	if len(around.raw) > restLimit {
		return v, nil, tooLarge("The body without its member "+path[len(path)-1], int64(restLimit))
	}
	if _, shape = around.read(s); hasMoreValues(around.raw, maxValues) {
		return v, shape, nil
	}
	_ = json.Unmarshal(d.raw, &v) // shape has the faults
	return v, shape, nil
}

// hasHugeNumber reports whether JSON contains a number outside the range of float64.
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

// stringLength returns the number of bytes of the JSON string at the beginning of
// raw, quotes included.
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

// without returns a JSON document in which null replaces the values at a path.
func without(raw []byte, path []string) []byte {
	w := nullReplacer{decoder: json.NewDecoder(bytes.NewReader(raw)), raw: raw}
	if !w.walk(path) {
		return raw // it is not JSON
	}
	return append(w.out, raw[w.copied:]...)
}

// nullReplacer walks through a document and replaces the values at a path by null.
type nullReplacer struct {
	decoder *json.Decoder
	raw     []byte
	out     []byte // raw up to copied, with null for the values
	copied  int
}

// walk reads the next value. It returns false if the document is not JSON.
func (w *nullReplacer) walk(path []string) bool {
	if len(path) == 0 {
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
		if step == path[0] {
			if !w.walk(path[1:]) {
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

// replaceNext writes null in place of the next value.
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

// skipped decodes a JSON value of any type and stores only its length in bytes.
type skipped int

// UnmarshalJSON implements json.Unmarshaler.
func (n *skipped) UnmarshalJSON(raw []byte) error {
	*n = skipped(len(raw))
	return nil
}
