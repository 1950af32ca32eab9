package targets

import (
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/eventhook/eventhook"
)

// call is one request of an http target, for one event. Do may be called by
// several at once.
type call struct {
	requester
	header     http.Header
	body       []byte
	traceID    string
	traceFlags string
}

// Timeout implements effects.Call.
func (c *call) Timeout() time.Duration { return c.timeout }

// sent is what people are told of a request.
type sent struct {
	Method     string            `json:"method"`
	URL        string            `json:"url"`
	Headers    map[string]string `json:"headers"`
	Body       any               `json:"body,omitempty"`        // JSON, or a text
	BodyBase64 []byte            `json:"body_base64,omitempty"` // of what is no text
	BodySize   *int              `json:"body_size,omitempty"`   // of what is too large to be shown
}

// Input implements effects.Call.
func (c *call) Input() json.RawMessage {
	const most = 64 << 10
	s := sent{Method: c.method, URL: c.url, Headers: map[string]string{}}
	for name, values := range c.header {
		s.Headers[name] = strings.Join(values, ", ")
	}
	if !c.authorization.IsZero() {
		s.Headers["Authorization"] = eventhook.Redacted
	}
	switch {
	case len(c.body) > most:
		s.BodySize = new(len(c.body))
	case !c.raw:
		s.Body = json.RawMessage(c.body)
	case isText(string(c.body)):
		s.Body = string(c.body)
	default:
		s.BodyBase64 = c.body
	}
	raw, err := encode(s)
	if err != nil {
		return json.RawMessage("null")
	}
	return raw
}
