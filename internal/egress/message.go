package egress

import (
	"bytes"
	"cmp"
	"errors"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/net/http/httpguts"
)

// message is a request as it is sent.
type message struct{ bytes.Buffer }

// messages are those that are free to be used again.
var messages = sync.Pool{New: func() any { return &message{} }}

// largeMessage is too large to keep.
const largeMessage = 64 << 10

func (m *message) free() {
	if m.Cap() <= largeMessage {
		messages.Put(m)
	}
}

var errUnsendable error = &requestError{"the request has a method, a header or a body that cannot be sent", classBlocked, nil}

// theirs are the headers that what a request is sent by decides.
var theirs = map[string]bool{"Host": true, "Content-Length": true, "Transfer-Encoding": true, "Trailer": true, "Connection": true}

// compose writes a request down as RFC 9112 has it, headers in the order of
// their names, and closes its body.
func compose(r *http.Request) (*message, error) {
	var body io.Reader = http.NoBody
	if r.Body != nil {
		defer func() { _ = r.Body.Close() }()
		body = r.Body
	}
	host, err := httpguts.PunycodeHostPort(cmp.Or(r.Host, r.URL.Host))
	path := strings.ReplaceAll(r.URL.RequestURI(), " ", "%20") // url.Parse lets them stand in a query
	if err != nil || !httpguts.ValidHeaderFieldName(r.Method) || !httpguts.ValidHostHeader(host) || strings.ContainsFunc(path, isControl) {
		return nil, errUnsendable
	}
	m := messages.Get().(*message) //nolint:forcetypeassert // the pool holds nothing else
	m.Reset()
	for _, part := range []string{r.Method, " ", path, " HTTP/1.1\r\nHost: ", host, "\r\n"} {
		m.WriteString(part)
	}
	if err := errors.Join(m.headers(r.Header), m.body(r, body)); err != nil {
		m.free()
		return nil, errUnsendable
	}
	return m, nil
}

var errNoHeader = errors.New("no header of HTTP")

func (m *message) headers(h http.Header) error {
	for _, name := range slices.Sorted(maps.Keys(h)) {
		if theirs[http.CanonicalHeaderKey(name)] {
			continue
		}
		for _, value := range h[name] {
			if !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(value) {
				return errNoHeader
			}
			m.field(name, strings.TrimSpace(value))
		}
	}
	return nil
}

func (m *message) field(name, value string) {
	m.WriteString(name)
	m.WriteString(": ")
	m.WriteString(value)
	m.WriteString("\r\n")
}

// body ends the headers with its length, and follows them.
func (m *message) body(r *http.Request, body io.Reader) error {
	length := max(r.ContentLength, 0)
	if length == 0 && body != http.NoBody { // nobody has said
		raw, err := io.ReadAll(body)
		if err != nil {
			return err
		}
		length, body = int64(len(raw)), bytes.NewReader(raw)
	}
	if length > 0 || r.Method != http.MethodGet && r.Method != http.MethodHead {
		m.field("Content-Length", strconv.FormatInt(length, 10))
	}
	m.WriteString("\r\n")
	m.Grow(int(length) + bytes.MinRead) // one copy of what may be large
	n, err := m.ReadFrom(body)
	if err == nil && n != length {
		return io.ErrUnexpectedEOF
	}
	return err
}

func isControl(c rune) bool { return c < ' ' || c == 0x7f }
