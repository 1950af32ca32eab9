package verify

import (
	"bytes"
	"strings"

	"github.com/eventhook/eventhook/internal/payload"
)

// MemoryCost returns a function that bounds the memory that verification allocates for
// the body of a request, garbage included, in bytes. It returns nil for schemes
// that only hash the body.
func (c Config) MemoryCost() func(contentType string, body []byte) int {
	const (
		signedAdd = 64 << 10 // of the other parts of what is signed
		fields    = 3        // copies: of fields, and of the message that they are part of
		sns       = 16       // the same, of a message whose fields are read one by one
		forms     = 12       // copies of a form's names and values, sorted and after the URL
		perField  = 100
		most      = 10_000 // fields of a form
	)
	switch {
	case c.Type == "aws_sns":
		return func(_ string, body []byte) int { return payload.MemoryCost("", body) + sns*len(body) + signedAdd }
	case c.Type == "url_form_hmac":
		return func(_ string, body []byte) int {
			return forms*len(body) + perField*min(bytes.Count(body, []byte("&"))+1, most) + signedAdd
		}
	case c.Path != "" || strings.Contains(c.Signed, "{field."):
		return func(contentType string, body []byte) int {
			return payload.MemoryCost(contentType, body) + fields*len(body) + signedAdd
		}
	case c.Type == "public_key" || c.Reserved != "" || c.TimestampPath != "": // the message in one piece, a text of the body
		return func(_ string, body []byte) int { return 2*len(body) + signedAdd }
	}
	return nil
}
