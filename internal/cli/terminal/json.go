package terminal

import (
	"encoding/json"
	"io"
)

// orNull is a text that is null when empty.
func OrNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// printLine writes one line of JSON for machines, not for pages.
func PrintLine(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}
