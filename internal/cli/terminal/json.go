package terminal

import (
	"encoding/json"
	"io"
)

// OrNull returns nil for an empty text, which JSON encodes as null.
func OrNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// PrintLine writes v as one line of JSON. It does not escape <, > and &.
func PrintLine(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}
