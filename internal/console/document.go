package console

import (
	"bytes"
	"encoding/json"

	"github.com/eventhook/eventhook/internal/web"
)

// document is a JSON document in a page: as a tree and as text.
type document struct {
	Title string
	web.Shown
}

// documentOf returns a document of the API; nil for one that is absent or null.
func documentOf(title string, raw json.RawMessage) *document {
	if len(raw) == 0 || string(raw) == "null" {
		return nil
	}
	return &document{title, web.Show(raw, int64(len(raw)))}
}

// optionalOf is documentOf for an optional document.
func optionalOf(title string, raw *json.RawMessage) *document {
	if raw == nil {
		return nil
	}
	return documentOf(title, *raw)
}

// plainJSON returns a value as JSON in which the characters of markup stay as they are: templates
// escape them.
func plainJSON(value any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if e.Encode(value) != nil {
		return nil // a value of the API is JSON
	}
	return bytes.TrimSpace(b.Bytes())
}

// documentsOf returns the documents that are present.
func documentsOf(all ...*document) (present []*document) {
	for _, d := range all {
		if d != nil {
			present = append(present, d)
		}
	}
	return present
}
