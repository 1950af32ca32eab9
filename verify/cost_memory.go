package verify

import (
	"bytes"
	"strings"

	"github.com/eventhook/eventhook/internal/payload"
)

// MemoryCost returns a function that returns an upper bound of the bytes that
// Verify allocates for a request with the body, including garbage. MemoryCost
// returns nil for schemes that only hash the body.
func (c Config) MemoryCost() func(contentType string, body []byte) int {
	const (
		overhead  = 64 << 10 // for the signed text besides the body
		fields    = 3        // copies of the body: the fields, and the message that contains them
		sns       = 16       // copies of an SNS message, whose fields are read one by one
		forms     = 12       // copies of a form's names and values: parsed, sorted, and appended to the URL
		perField  = 100
		maxFields = 10_000 // of a form
	)
	switch {
	case c.Type == "aws_sns":
		return func(_ string, body []byte) int { return payload.MemoryCost("", body) + sns*len(body) + overhead }
	case c.Type == "url_form_hmac":
		return func(_ string, body []byte) int {
			return forms*len(body) + perField*min(bytes.Count(body, []byte("&"))+1, maxFields) + overhead
		}
	case c.Path != "" || strings.Contains(c.Signed, "{field."):
		return func(contentType string, body []byte) int {
			return payload.MemoryCost(contentType, body) + fields*len(body) + overhead
		}
	case c.Type == "public_key" || c.Reserved != "" || c.TimestampPath != "": // these copy the message or the body once
		return func(_ string, body []byte) int { return 2*len(body) + overhead }
	}
	return nil
}
