package targets

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/payload"
)

// HTTP is an http target, compiled: it composes the requests of deliveries to the
// target. It does not change and is safe for concurrent use.
type HTTP struct {
	url           *url.URL
	method        string
	header        http.Header // what is configured
	authorization eventhook.Secret
	timeout       time.Duration
	retry         *TargetRetry // nil: the source's
	raw           bool
	place         string // the route and the index there
}

// NewHTTP compiles an http target. It fails as New does, and for a target of another
// type.
func NewHTTP(t eventhook.Target) (*HTTP, error) {
	x, err := New(t, Deps{})
	if err != nil {
		return nil, err
	}
	r, ok := x.(*HTTP)
	if !ok {
		return nil, fmt.Errorf("a %s target makes no requests", t.Type)
	}
	return r, nil
}

// URL is where requests go. The caller must not change it.
func (r *HTTP) URL() *url.URL { return r.url }

// Authorization is the value of the header of that name, zero without one.
func (r *HTTP) Authorization() eventhook.Secret { return r.authorization }

// Timeout is how long an answer may take.
func (r *HTTP) Timeout() time.Duration { return r.timeout }

// Retry returns the target's own retry policy, false if the source's is used.
func (r *HTTP) Retry() (eventhook.RetryPolicy, bool) { return r.retry.Policy(), r.retry != nil }

// Compose composes the request of an attempt, counted from 1, at a delivery that has
// its event. The body and the Idempotency-Key are the same at every attempt; the
// traceparent has a new span at each.
func (r *HTTP) Compose(d *eventhook.Delivery, attempt int) *http.Request {
	e := d.Event
	v := payload.New(nil, payload.HeaderBlock(e.Headers), e.ContentType, e.Body)
	header, body := r.content(e, v, d.Body)
	r.introduce(header, e, attempt)
	header.Set(eventhook.GatewayHeaderPrefix+"Delivery-Id", d.ID.String())
	if !r.authorization.IsZero() {
		header.Set("Authorization", r.authorization.Reveal())
	}
	header.Set("Traceparent", "00-"+e.Trace()+"-"+newSpanID()+"-"+traceFlags(e, v))
	return &http.Request{
		Method: r.method, URL: r.url, Host: r.url.Host, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: header, Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)),
		GetBody: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil },
	}
}

// content returns the headers and the body that the target's settings ask for: stored
// is what a transform made of the event, nil without one.
func (r *HTTP) content(e *eventhook.Event, v *payload.View, stored []byte) (http.Header, []byte) {
	header := http.Header{}
	body := stored
	switch {
	case r.raw:
		body = e.Body
		passOn(header, payload.HeaderBlock(e.Headers))
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

func newSpanID() string {
	const size = 8
	var id [size]byte
	_, _ = rand.Read(id[:]) // never fails, see crypto/rand
	return hex.EncodeToString(id[:])
}

// shown is what people are shown of a request.
type shown struct {
	Method     string            `json:"method"`
	URL        string            `json:"url"`
	Headers    map[string]string `json:"headers"`
	Body       any               `json:"body,omitempty"`        // JSON, or a text
	BodyBase64 []byte            `json:"body_base64,omitempty"` // of bytes that are not text
	BodySize   *int              `json:"body_size,omitempty"`   // of a body that is too large to be shown
}

// preview shows the first attempt at an event without its secrets.
func (r *HTTP) preview(e *eventhook.Event, stored []byte) json.RawMessage {
	const most = 64 << 10
	header, body := r.content(e, payload.New(nil, payload.HeaderBlock(e.Headers), e.ContentType, e.Body), stored)
	r.introduce(header, e, 1)
	s := shown{Method: r.method, URL: r.url.String(), Headers: map[string]string{}}
	for name, values := range header {
		s.Headers[name] = strings.Join(values, ", ")
	}
	if !r.authorization.IsZero() {
		s.Headers["Authorization"] = eventhook.Redacted
	}
	switch {
	case len(body) > most:
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
