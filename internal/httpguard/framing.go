package httpguard

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// A request with both Content-Length and Transfer-Encoding is refused (RFC 9112,
// section 6.3): a proxy that uses the length and a server that uses the encoding
// disagree on where the next request begins. net/http uses the encoding and
// deletes the length before a handler runs, so conn parses the bytes that are
// read. conn does not parse chunked bodies: the server closes a connection after
// its first chunked request.

// Listener accepts connections whose requests Handler can check.
type Listener struct{ net.Listener }

// Accept waits for the next connection.
func (l Listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &conn{Conn: c}, nil
}

// conn parses the requests that are read from a connection. Only one goroutine at
// a time, the one of the server that reads the connection, may call Read.
type conn struct {
	net.Conn

	line      []byte // beginning of the current header line, at most maxLine bytes
	length    uint64 // Content-Length of the current header
	body      uint64 // bytes of the current body that were not read yet
	hasLength bool
	isEncoded bool // the current header has Transfer-Encoding
	isLast    bool // the last header had Transfer-Encoding: the server closes the connection after this request
	isUnclear bool // a request had both headers, or a length that endLine cannot parse; set before the server reads the end of that header
}

// maxLine is longer than a Content-Length line of the usual form, in bytes.
const maxLine = 64

// Read reads from the connection and checks the bytes. A handler sees the result
// for its own request, since net/http reads the whole header before it calls the
// handler.
func (c *conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.parse(p[:n])
	return n, err
}

func (c *conn) parse(data []byte) {
	for len(data) > 0 && !c.isLast {
		if c.body > 0 {
			n := min(c.body, uint64(len(data)))
			c.body -= n
			data = data[n:]
			continue
		}
		part, rest, ended := bytes.Cut(data, []byte{'\n'})
		c.line = append(c.line, part[:min(len(part), maxLine-len(c.line))]...)
		data = rest
		if ended {
			c.endLine(strings.TrimSuffix(string(c.line), "\r"))
			c.line = c.line[:0]
		}
	}
}

func (c *conn) endLine(line string) {
	if line == "" { // end of the header
		c.body, c.length, c.hasLength, c.isLast = c.length, 0, false, c.isEncoded
		return
	}
	name, value, _ := strings.Cut(line, ":")
	switch {
	case strings.EqualFold(name, "Content-Length"):
		var err error
		c.hasLength = true
		c.length, err = strconv.ParseUint(strings.TrimSpace(value), 10, 63)
		c.isUnclear = c.isUnclear || err != nil || len(c.line) == maxLine // the line was cut, or is continued on the next line
	case strings.EqualFold(name, "Transfer-Encoding"):
		c.isEncoded = true
	}
	c.isUnclear = c.isUnclear || c.hasLength && c.isEncoded
}

type connKey struct{}

// ConnContext stores the connection in the context of its requests. Use it as
// http.Server.ConnContext.
func ConnContext(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, c)
}

// connOf returns the checked connection of a request, nil with HTTP/2.
func connOf(r *http.Request) *conn {
	switch c := r.Context().Value(connKey{}).(type) {
	case *conn:
		return c
	case *tlsConn:
		return &c.conn
	}
	return nil
}

// framingProblem is the answer to a request whose end is ambiguous.
const framingProblem = `{"title":"Bad Request","status":400,"detail":"The end of the request is ambiguous: ` +
	`Content-Length must be one short line with a number, and must not be combined with Transfer-Encoding."}`

// refuseAmbiguous answers 400 to requests whose end is ambiguous, and closes the
// connection after a chunked request.
func refuseAmbiguous(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := connOf(r)
		if len(r.TransferEncoding) > 0 || c != nil && c.isUnclear {
			w.Header().Set("Connection", "close")
		}
		if c != nil && c.isUnclear {
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, framingProblem) // the client may be gone
			return
		}
		next.ServeHTTP(w, r)
	})
}

// Handler returns a handler that refuses ambiguous requests and answers refusals of
// next without reading the rest of the body. The server must use Listener and
// ConnContext.
func Handler(now func() time.Time, next http.Handler) http.Handler {
	return refuseAmbiguous(refusePromptly(now, next))
}
