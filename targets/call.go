package targets

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/effects"
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

// Do implements effects.Call.
func (c *call) Do(ctx context.Context) error {
	if c.sender == nil {
		return errors.New("this gateway makes no requests to URLs")
	}
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, c.method, c.url, bytes.NewReader(c.body))
	if err != nil {
		return &effects.CallError{Message: "the request cannot be made: its url is not valid", Permanent: true}
	}
	r.Header = c.header.Clone()
	if !c.authorization.IsZero() {
		r.Header.Set("Authorization", c.authorization.Reveal())
	}
	if c.traceID != "" {
		r.Header.Set("Traceparent", "00-"+c.traceID+"-"+newSpanID()+"-"+c.traceFlags)
	}
	status, header, err := c.sender.Send(ctx, r)
	if err != nil {
		return err
	}
	return c.judge(status, header, time.Now())
}

// judge is what a status means: nil for 2xx. Gone is gone for good (RFC 9110,
// section 15.5.11).
func (c *call) judge(status int, header http.Header, now time.Time) error {
	if status >= 200 && status <= 299 {
		return nil
	}
	failed := &effects.CallError{
		Message:   strings.TrimSpace(fmt.Sprintf("%s answered %d %s", c.host, status, http.StatusText(status))),
		Permanent: status == http.StatusGone,
	}
	if status >= 300 && status <= 399 {
		failed.Message += "; redirects are not followed"
	}
	if status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable {
		failed.After = eventhook.RetryAfter(header.Get("Retry-After"), now)
	}
	return failed
}

func newSpanID() string {
	const size = 8
	var id [size]byte
	_, _ = rand.Read(id[:]) // never fails, see crypto/rand
	return hex.EncodeToString(id[:])
}

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
