package targets

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/payload"
)

// HTTP is a compiled http target. It composes the requests of deliveries to the target. It is
// immutable and safe for concurrent use.
type HTTP struct {
	url               *url.URL
	method            string
	header            http.Header // configured headers
	authorization     eventhook.Secret
	auth              *eventhook.Auth // nil without one
	timeout           time.Duration
	labels            []string
	retry             *TargetRetry // nil if the source's policy applies
	raw               bool
	idempotencyPrefix string // the route's id and the target's index in it
}

// Method returns the HTTP method of requests.
func (r *HTTP) Method() string { return r.method }

// URL returns the URL of requests. The caller must not modify it.
func (r *HTTP) URL() *url.URL { return r.url }

// Authorization returns the value of the Authorization header. It is zero if the target has no
// auth_header.
func (r *HTTP) Authorization() eventhook.Secret { return r.authorization }

// Auth authenticates the requests. It is nil if the target has no auth. The caller must not
// modify it.
func (r *HTTP) Auth() *eventhook.Auth { return r.auth }

// Timeout is how long to wait for a response.
func (r *HTTP) Timeout() time.Duration { return r.timeout }

// TargetLabels returns the labels of the agents that send the requests; nil if the gateway does.
func (r *HTTP) TargetLabels() []string { return r.labels }

// Retry returns the target's retry policy, and false if the source's policy applies.
func (r *HTTP) Retry() (eventhook.RetryPolicy, bool) { return r.retry.Policy(), r.retry != nil }

// Compose returns the request for an attempt, counted from 1, of a delivery with its event. The
// body and the Idempotency-Key header are the same for every attempt. Each attempt has a new span
// in its traceparent.
func (r *HTTP) Compose(d *eventhook.Delivery, attempt int) *http.Request {
	e := d.Event
	v := payload.New(nil, payload.HeaderBlock(e.Headers), e.ContentType, e.Body)
	header, body := r.content(e, v, d.Body)
	r.addEventHeaders(header, e, attempt)
	header.Set(eventhook.GatewayHeaderPrefix+"Delivery-Id", d.ID.String())
	if !r.authorization.IsZero() {
		header.Set("Authorization", r.authorization.Reveal())
	}
	header.Set("Traceparent", eventhook.Traceparent(e.Trace(), eventhook.NewSpanID(), e.TraceFlags()))
	return &http.Request{
		Method: r.method, URL: r.url, Host: r.url.Host, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: header, Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)),
		GetBody: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil },
	}
}

// content returns the headers and the body according to the settings. stored is the output of the
// transform; it is nil if the route has no transform.
func (r *HTTP) content(e *eventhook.Event, v *payload.View, stored []byte) (http.Header, []byte) {
	header := http.Header{}
	body := stored
	switch {
	case r.raw:
		body = e.Body
		copyHeaders(header, payload.HeaderBlock(e.Headers))
	case stored == nil:
		body = v.Render()
		fallthrough
	default:
		header.Set("Content-Type", "application/json")
	}
	for name, values := range r.header {
		header[name] = values
	}
	return header, body
}

// requestPreview is the preview of a request.
type requestPreview struct {
	Method     string            `json:"method"`
	URL        string            `json:"url"`
	Headers    map[string]string `json:"headers"`
	Body       any               `json:"body,omitempty"`        // JSON or a string
	BodyBase64 []byte            `json:"body_base64,omitempty"` // a body that is not text
	BodySize   *int              `json:"body_size,omitempty"`   // set instead of a body that is too large for the preview
}

// maxPreviewBody is the maximum size of a body in a preview, in bytes.
const maxPreviewBody = 64 << 10

// preview encodes the request of the first attempt without secrets.
func (r *HTTP) preview(e *eventhook.Event, stored []byte) json.RawMessage {
	header, body := r.content(e, payload.New(nil, payload.HeaderBlock(e.Headers), e.ContentType, e.Body), stored)
	r.addEventHeaders(header, e, 1)
	s := requestPreview{Method: r.method, URL: r.url.String(), Headers: map[string]string{}}
	for name, values := range header {
		s.Headers[name] = strings.Join(values, ", ")
	}
	if !r.authorization.IsZero() || r.auth != nil && r.auth.Type != eventhook.AuthMTLS {
		s.Headers["Authorization"] = eventhook.Redacted
	}
	switch {
	case len(body) > maxPreviewBody:
		s.BodySize = new(len(body))
	case !r.raw:
		s.Body = json.RawMessage(body)
	case isText(string(body)):
		s.Body = string(body)
	default:
		s.BodyBase64 = body
	}
	raw, err := encode(s)
	if err != nil {
		return json.RawMessage("null")
	}
	return raw
}
