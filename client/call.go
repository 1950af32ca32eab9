package client

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// mostAnswer bounds an answer: a body of 32 MiB in JSON is well within it.
const mostAnswer = 256 << 20

// request is one call of an operation.
type request struct {
	method string
	path   operationPath
	query  url.Values
	header url.Values
	body   any // nil for none; a json.RawMessage is sent as it is
}

// CallOption changes one call.
type CallOption func(*call)

type call struct {
	keepBody   *[]byte
	keepHeader *http.Header
	header     http.Header
}

// KeepBody keeps the answer as it came, to the byte, whatever this version
// knows of it.
func KeepBody(into *[]byte) CallOption { return func(c *call) { c.keepBody = into } }

// KeepHeader keeps the answer's header fields, such as ETag.
func KeepHeader(into *http.Header) CallOption { return func(c *call) { c.keepHeader = into } }

// WithHeader adds a header field to the request, such as X-Request-Id.
func WithHeader(name, value string) CallOption { return func(c *call) { c.header.Set(name, value) } }

// operationPath is the path of an operation, or what is wrong with it.
type operationPath struct {
	text string
	err  error
}

// path puts names into the path of an operation. Those that would lead to
// another path are an error.
func path(format string, names ...any) operationPath {
	for i, name := range names {
		text := fmt.Sprint(name)
		if text == "" || text == "." || text == ".." {
			return operationPath{err: fmt.Errorf("%q can name nothing", text)}
		}
		names[i] = url.PathEscape(text)
	}
	return operationPath{text: fmt.Sprintf(format, names...)}
}

// set adds a value, if it is there, as the API reads it.
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

// answer makes a call whose answer is JSON.
func answer[T any](ctx context.Context, c *Client, r request, options []CallOption) (out T, err error) {
	ctx, cancel := c.bounded(ctx)
	defer cancel()
	raw, err := c.read(ctx, r, options)
	if err != nil {
		return out, err
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber() // in members of any shape
	if err := d.Decode(&out); err != nil {
		return out, fmt.Errorf("%s %s: the answer cannot be read: %w", r.method, r.path.text, err)
	}
	return out, nil
}

// done makes a call that has no answer but that it is done.
func done(ctx context.Context, c *Client, r request, options []CallOption) error {
	ctx, cancel := c.bounded(ctx)
	defer cancel()
	_, err := c.read(ctx, r, options)
	return err
}

// stream makes a call whose answer the caller reads, and closes.
func stream(ctx context.Context, c *Client, r request, options []CallOption) (*http.Response, error) {
	return c.do(ctx, r, options)
}

// read makes a call and reads its whole answer.
func (c *Client) read(ctx context.Context, r request, options []CallOption) ([]byte, error) {
	resp, err := c.do(ctx, r, options)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, mostAnswer))
	if err != nil {
		return nil, fmt.Errorf("%s %s: read the answer: %w", r.method, r.path.text, err)
	}
	if keep := optionsOf(options).keepBody; keep != nil {
		*keep = raw
	}
	return raw, nil
}

// do makes a call. Whatever is not a success is a *Problem.
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
		return nil, err // a *url.Error, which says what was called
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

// written is a body as it is sent: JSON stays as it is, to the byte, as far as
// it is JSON.
func written(body any) ([]byte, error) {
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
		raw, err := written(r.body)
		if err != nil {
			return nil, fmt.Errorf("%s %s: the request cannot be written: %w", r.method, r.path.text, err)
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
