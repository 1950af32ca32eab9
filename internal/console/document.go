package console

import (
	"bytes"
	"encoding/json"

	"github.com/eventhook/eventhook/internal/web"
)

// maxRaw limits the raw form of a document in a page, in bytes.
const maxRaw = 64 << 10

// document is a JSON document in a page: as a tree and as text.
type document struct {
	Title string
	JSON  []byte
	Raw   string
	IsCut bool // Raw is only the beginning
}

// documentOf returns a document of a value of the API; nil for a value that is absent.
func documentOf(title string, value any) *document {
	if value == nil {
		return nil
	}
	raw := plainJSON(value)
	d := &document{Title: title, JSON: raw, Raw: web.Pretty(raw)}
	if len(d.Raw) > maxRaw {
		d.Raw, d.IsCut = d.Raw[:maxRaw], true
	}
	return d
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
