package console

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/eventhook/eventhook/internal/web"
)

// The readers of a form's values return nil for an empty field. A value that cannot be read is a
// fault of its field; isReadable then reports false.

// maxDocument limits a JSON document that a form decodes, in bytes: decoded, it takes many times as much
// memory. It is the API's limit of a configuration.
const maxDocument = 512 << 10

var errLongDocument = errors.New("it has more than " + web.Bytes(maxDocument))

// json returns the JSON document of a field.
func (f *form) json(name string) json.RawMessage {
	text := strings.TrimSpace(f.Get(name))
	if text == "" {
		return nil
	}
	if !json.Valid([]byte(text)) {
		f.Faults[name] = "is not valid JSON; put a text into double quotes"
		return nil
	}
	return json.RawMessage(text)
}

// object returns the JSON object of a field. It is not nil, so that an empty field is {}.
func (f *form) object(name string) map[string]any {
	object := map[string]any{}
	raw := f.json(name)
	if raw == nil {
		return object
	}
	if len(raw) > maxDocument {
		f.Faults[name] = errLongDocument.Error()
		return object
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if err := d.Decode(&object); err != nil || object == nil {
		f.Faults[name] = "is not a JSON object"
		return map[string]any{}
	}
	return object
}

// integer returns the whole number of a field.
func (f *form) integer(name string) *int64 {
	text := strings.TrimSpace(f.Get(name))
	if text == "" {
		return nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		f.Faults[name] = "is not a whole number"
		return nil
	}
	return &n
}

// time returns the moment of a field, in the forms of parseTime.
func (f *form) time(name string) *time.Time {
	at, ok := parseTime(f.Get(name))
	if !ok {
		f.Faults[name] = "is not a time such as 2026-01-31T14:02:00Z"
	}
	return at
}

// text returns the text of a field.
func (f *form) text(name string) *string {
	if text := strings.TrimSpace(f.Get(name)); text != "" {
		return &text
	}
	return nil
}

// words returns the texts of a field that commas, spaces or lines separate. It is not nil, so that
// an empty field is an empty list.
func (f *form) words(name string) []string {
	words := strings.FieldsFunc(f.Get(name), func(r rune) bool { return strings.ContainsRune(", \r\n\t", r) })
	if words == nil {
		return []string{}
	}
	return words
}

// isReadable reports whether every value that was read so far could be read.
func (f *form) isReadable() bool { return len(f.Faults) == 0 }

// jsonOf returns a body that states members the client would omit, such as null or an empty list.
func jsonOf(members map[string]any) (json.RawMessage, error) { return json.Marshal(members) }
