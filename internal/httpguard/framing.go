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

// A request with Content-Length and Transfer-Encoding is refused (RFC 9112,
// section 6.3): a proxy that believes the length and a server that believes the
// encoding see different requests. net/http follows the encoding and deletes the
// length before a handler runs, so framedConn looks at the bytes. A connection
// ends with its first chunked request; framedConn follows lengths only.

// framedListener accepts connections that watch the framing of their requests.
type Listener struct{ net.Listener }

func (l Listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &framedConn{Conn: c}, nil
}

// framedConn follows the requests that are read from a connection. Only the
// server's reader may call Read.
type framedConn struct {
	net.Conn

	line      []byte // begin of the current line of a header, at most mostLine bytes
	length    uint64 // of the body that the current header announces
	body      uint64 // bytes of the current body that are still to come
	hasLength bool
	isEncoded bool // Transfer-Encoding was seen
	isLast    bool // the header with it has ended: no other request follows
	isUnclear bool // a request has both, or a length that endLine cannot read; written before the server sees the end of its header
}

// mostLine is enough for a name and a length.
const mostLine = 64

// Read reads from the connection. A handler that runs after the read of its
// header sees what it found.
func (c *framedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.follow(p[:n])
	return n, err
}

func (c *framedConn) follow(data []byte) {
	for len(data) > 0 && !c.isLast {
		if c.body > 0 {
			n := min(c.body, uint64(len(data)))
			c.body -= n
			data = data[n:]
			continue
		}
		part, rest, ended := bytes.Cut(data, []byte{'\n'})
		c.line = append(c.line, part[:min(len(part), mostLine-len(c.line))]...)
		data = rest
		if ended {
			c.endLine(strings.TrimSuffix(string(c.line), "\r"))
			c.line = c.line[:0]
		}
	}
}

func (c *framedConn) endLine(line string) {
	if line == "" { // the end of a header
		c.body, c.length, c.hasLength, c.isLast = c.length, 0, false, c.isEncoded
		return
	}
	name, value, _ := strings.Cut(line, ":")
	switch {
	case strings.EqualFold(name, "Content-Length"):
		var err error
		c.hasLength = true
		c.length, err = strconv.ParseUint(strings.TrimSpace(value), 10, 63)
		c.isUnclear = c.isUnclear || err != nil || len(c.line) == mostLine // the line was cut, or goes on with the next
	case strings.EqualFold(name, "Transfer-Encoding"):
		c.isEncoded = true
	}
	c.isUnclear = c.isUnclear || c.hasLength && c.isEncoded
}

type framedKey struct{}

// withFraming gives handlers their connection; for http.Server's ConnContext.
func ConnContext(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, framedKey{}, c)
}

// framingProblem answers a request whose framing is not clear.
const framingProblem = `{"title":"Bad Request","status":400,"detail":"The end of the request is not clear: ` +
	`Content-Length must be one short line with a number, and must not come with Transfer-Encoding."}`

// refuseUnclearFraming refuses requests with both ways of framing or with an
// unclear length, and ends the connection after a chunked one.
func refuseUnclearFraming(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, _ := r.Context().Value(framedKey{}).(*framedConn)
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

// guard is framing and prompt refusals around a handler.
func Handler(now func() time.Time, next http.Handler) http.Handler {
	return refuseUnclearFraming(refusePromptly(now, next))
}
