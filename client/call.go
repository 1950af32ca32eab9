package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// maxResponseBytes limits the body of a response. The largest response of the API contains an
// event with a body of 32 MiB as JSON.
const maxResponseBytes = 256 << 20

// request is a call of an operation of the API.
type request struct {
	method string
	path   operationPath
	query  url.Values
	header url.Values
	body   any // nil: no body; a json.RawMessage is sent unchanged
}

// CallOption configures one call.
type CallOption func(*call)

type call struct {
	keepBody   *[]byte
	keepHeader *http.Header
	header     http.Header
}

// KeepBody stores the body of the response in *into. It also contains members of JSON objects
// that this version of the package does not know.
func KeepBody(into *[]byte) CallOption { return func(c *call) { c.keepBody = into } }

// KeepHeader stores the header of the response, for example its ETag, in *into.
func KeepHeader(into *http.Header) CallOption { return func(c *call) { c.keepHeader = into } }

// WithHeader sets a header field of the request, for example X-Request-Id.
func WithHeader(name, value string) CallOption { return func(c *call) { c.header.Set(name, value) } }

// operationPath is the path of an operation, or the error of path.
type operationPath struct {
	text string
	err  error
}

// ErrName is the error of a call for a resource whose name is empty, . or .., as no resource has such a
// name. The call is not made, because its URL would name another resource.
var ErrName = errors.New("is not the name of a resource")

// path inserts names into the path of an operation. The error is ErrName.
func path(format string, names ...any) operationPath {
	for i, name := range names {
		text := fmt.Sprint(name)
		if text == "" || text == "." || text == ".." {
			return operationPath{err: fmt.Errorf("%q %w", text, ErrName)}
		}
		names[i] = url.PathEscape(text)
	}
	return operationPath{text: fmt.Sprintf(format, names...)}
}

// set sets a query parameter or header field to the text that the API expects. It does nothing
// if value is nil.
func set[T any](values url.Values, name string, value *T) {
	if value == nil {
		return
	}
	switch v := any(*value).(type) {
	case time.Time:
		values.Set(name, v.Format(time.RFC3339Nano))
	case []string:
		if len(v) > 0 {
			values.Set(name, strings.Join(v, ","))
		}
	default:
		values.Set(name, fmt.Sprint(v))
	}
}

// callJSON makes a call and decodes the JSON of the response.
func callJSON[T any](ctx context.Context, c *Client, r request, options []CallOption) (out T, err error) {
	ctx, cancel := c.withTimeout(ctx)
	defer cancel()
	raw, err := c.read(ctx, r, options)
	if err != nil {
		return out, err
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber() // in members of type any, so that no digit is lost
	if err := d.Decode(&out); err != nil {
		return out, fmt.Errorf("%s %s: decode the response: %w", r.method, r.path.text, err)
	}
	return out, nil
}

// callNoContent makes a call whose response has no body.
func callNoContent(ctx context.Context, c *Client, r request, options []CallOption) error {
	ctx, cancel := c.withTimeout(ctx)
	defer cancel()
	_, err := c.read(ctx, r, options)
	return err
}

// callStream makes a call and returns the response. The caller must close its body.
func callStream(ctx context.Context, c *Client, r request, options []CallOption) (*http.Response, error) {
	return c.do(ctx, r, options)
}

// read makes a call and returns the body of the response.
func (c *Client) read(ctx context.Context, r request, options []CallOption) ([]byte, error) {
	resp, err := c.do(ctx, r, options)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxResponseBytes))
	if err != nil {
		return nil, fmt.Errorf("%s %s: read the response: %w", r.method, r.path.text, err)
	}
	if keep := optionsOf(options).keepBody; keep != nil {
		*keep = raw
	}
	return raw, nil
}

// do makes a call. It returns a *Problem if the status of the response is not 2xx.
func (c *Client) do(ctx context.Context, r request, options []CallOption) (*http.Response, error) {
	req, err := c.newRequest(ctx, r)
	if err != nil {
		return nil, err
	}
	o := optionsOf(options)
	for name := range o.header {
		req.Header.Set(name, o.header.Get(name))
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, err // a *url.Error, which contains the method and the URL
	}
	if o.keepHeader != nil {
		*o.keepHeader = resp.Header
	}
	if resp.StatusCode/100 != http.StatusOK/100 {
		defer func() { _ = resp.Body.Close() }()
		return nil, problemOf(resp)
	}
	return resp, nil
}

func optionsOf(options []CallOption) call {
	c := call{header: http.Header{}}
	for _, o := range options {
		o(&c)
	}
	return c
}

// encode returns the JSON of a request body. A valid json.RawMessage is returned unchanged,
// which json.Marshal does not guarantee.
func encode(body any) ([]byte, error) {
	if raw, isJSON := body.(json.RawMessage); isJSON && json.Valid(raw) {
		return raw, nil
	}
	return json.Marshal(body)
}

func (c *Client) newRequest(ctx context.Context, r request) (*http.Request, error) {
	if r.path.err != nil {
		return nil, r.path.err
	}
	target := c.server.String() + r.path.text
	if len(r.query) > 0 {
		target += "?" + r.query.Encode()
	}
	var body io.Reader
	if r.body != nil {
		raw, err := encode(r.body)
		if err != nil {
			return nil, fmt.Errorf("%s %s: encode the request: %w", r.method, r.path.text, err)
		}
		body = bytes.NewReader(raw)
	}
	req, err := http.NewRequestWithContext(ctx, r.method, target, body)
	if err != nil {
		return nil, err
	}
	for name, values := range r.header {
		req.Header.Set(name, values[0])
	}
	if r.body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	req.Header.Set("User-Agent", c.userAgent)
	c.authorize(req.Header)
	return req, nil
}
