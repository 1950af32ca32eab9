package egress

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"math"
	"net"
	"net/http"
	"net/url"
	"os"
	"time"
)

// direct makes requests without a proxy in between, over connections that it
// keeps, in the goroutine that asks. A small request costs about half of what it
// does with net/http, which has two goroutines for each connection.
//
// It speaks HTTP/1.1 only (RFC 9112), one request after the other: a connection
// that died without a word is closed when that request's time is over. Of HTTP/2
// it would be given to others for many minutes.
type direct struct {
	dial func(ctx context.Context, network, address string) (net.Conn, error)
	tls  *tls.Config
	pool pool
}

func newDirect(p Policy, dial func(ctx context.Context, network, address string) (net.Conn, error)) *direct {
	return &direct{dial: dial, tls: &tls.Config{RootCAs: p.RootCAs, MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}}, pool: newPool()}
}

func (d *direct) exchange(ctx context.Context, r *http.Request, most int) (reply, error) {
	m, err := compose(r)
	if err != nil {
		return reply{}, err
	}
	defer m.free()
	if err := ctx.Err(); err != nil { // over a connection that is kept it might still be sent
		return reply{}, err
	}
	to := r.URL.Scheme + "://" + r.URL.Host
	if c := d.pool.take(to); c != nil {
		answered, err := d.ask(ctx, c, r, m, most)
		if _, isRepeatable := r.Header["Idempotency-Key"]; !errors.As(err, new(silence)) || !isRepeatable || ctx.Err() != nil {
			return answered, err
		}
	}
	c, err := d.connect(ctx, r.URL)
	if err != nil {
		return reply{}, err
	}
	c.to = to
	return d.ask(ctx, c, r, m, most)
}

// connect dials, and shakes hands where that is wanted.
func (d *direct) connect(ctx context.Context, to *url.URL) (*conn, error) {
	host, port := dialled(to.Hostname()), to.Port()
	if port == "" {
		port = ports[to.Scheme]
	}
	wire, err := d.dial(ctx, "tcp", net.JoinHostPort(host, port))
	if err != nil {
		return nil, err
	}
	c := &conn{Conn: wire, wire: wire}
	if to.Scheme == "https" {
		config := d.tls.Clone()
		config.ServerName = host
		secured := tls.Client(wire, config)
		shaking, cancel := context.WithTimeout(ctx, connectTimeout)
		defer cancel()
		if err := secured.HandshakeContext(shaking); err != nil {
			_ = wire.Close()
			return nil, err
		}
		c.Conn = secured
	}
	c.in = bufio.NewReader(c)
	return c, nil
}

var ports = map[string]string{"http": "80", "https": "443"}

// silence is why no byte of an answer came.
type silence struct{ error }

func (s silence) Unwrap() error { return s.error }

// ask makes a request over a connection, which is kept or closed then.
func (d *direct) ask(ctx context.Context, c *conn, r *http.Request, m *message, most int) (answered reply, err error) {
	isUsable := false
	unheard := context.AfterFunc(ctx, func() { _ = c.SetDeadline(longAgo) })
	written := c.send(m)
	defer func() {
		isUsable = c.isWritten(written, isUsable) && isUsable
		if isUndisturbed := unheard(); isUsable && isUndisturbed && c.isDrained() {
			d.pool.keep(c)
		} else {
			_ = c.wire.Close()
		}
	}()
	response, err := c.read(r) //nolint:bodyclose // it ends with the connection, or is at its end
	if err != nil {
		return reply{}, err
	}
	answered = reply{status: response.StatusCode, header: response.Header}
	if response.StatusCode == http.StatusSwitchingProtocols {
		return answered, nil // what follows is no body, and has no end
	}
	var isWhole bool
	answered.beginning, isWhole = c.readBody(ctx, response, most)
	isUsable = isWhole && !response.Close
	return answered, nil
}

// conn is a connection that has one request at a time.
type conn struct {
	net.Conn          // of TLS, where there is TLS
	wire     net.Conn // what it runs over
	to       string   // whom it leads to
	in       *bufio.Reader
	most     int // bytes that may still be read
	kept     keeping
}

// isDrained reports whether all that was read of the connection was asked for. TLS
// reads ahead: what comes with the last record of an answer is neither in the
// reader nor on the wire any more.
func (c *conn) isDrained() bool {
	if c.Conn == c.wire {
		return c.in.Buffered() == 0
	}
	_ = c.SetReadDeadline(longAgo)
	_, err := c.in.Peek(1)
	_ = c.SetReadDeadline(time.Time{})
	return errors.Is(err, os.ErrDeadlineExceeded)
}

// errLargeHeaders is what reading the headers of an answer ends with.
var errLargeHeaders = errors.New("the headers of the answer are too large")

// Read is for the reader in.
func (c *conn) Read(p []byte) (n int, err error) {
	if c.most == 0 {
		return 0, errLargeHeaders
	}
	n, err = c.Conn.Read(p[:min(len(p), c.most)])
	c.most -= n
	return n, err
}

// longAgo is a deadline that has passed.
var longAgo = time.Unix(1, 0)

// atOnce is what is written without looking whether there is an answer already:
// what a socket takes although nobody reads.
const atOnce = 16 << 10

// send writes a message. Whether it could can be received when that has ended,
// and until then the message is in use.
func (c *conn) send(m *message) (written <-chan bool) {
	done := make(chan bool, 1)
	write := func() {
		_, err := c.Write(m.Bytes())
		done <- err == nil
	}
	if m.Len() > atOnce {
		go write()
	} else {
		write()
	}
	return done
}

// writeGrace is how long a message may still take to be sent when it was answered.
const writeGrace = 50 * time.Millisecond

// isWritten waits until the writing has ended, which it makes it do soon, and at
// once where nobody has answered.
func (c *conn) isWritten(written <-chan bool, isAnswered bool) bool {
	select {
	case isWhole := <-written:
		return isWhole
	default:
	}
	if !isAnswered {
		_ = c.wire.Close()
		return <-written
	}
	_ = c.SetWriteDeadline(time.Now().Add(writeGrace))
	isWhole := <-written
	_ = c.SetWriteDeadline(time.Time{})
	return isWhole
}

// mostInterim bounds the answers before the answer, such as 103 Early Hints.
const mostInterim = 5

// read reads an answer up to its body. Who could not write may have been
// answered nevertheless, so this alone says what came of a request.
func (c *conn) read(r *http.Request) (response *http.Response, err error) {
	c.most = maxHeaderBytes
	defer func() { c.most = math.MaxInt }()
	if _, err := c.in.Peek(1); err != nil {
		return nil, silence{err}
	}
	for range mostInterim + 1 {
		response, err = http.ReadResponse(c.in, r)
		switch {
		case err != nil || response.StatusCode >= http.StatusOK || response.StatusCode == http.StatusSwitchingProtocols:
			return response, err
		case response.StatusCode < http.StatusContinue:
			return nil, errNoStatus
		}
	}
	return nil, errManyInterim
}

var (
	errManyInterim = errors.New("too many answers of 1xx")
	errNoStatus    = errors.New("a status below 100")
)

// readBody reads the beginning of a body, and the rest if that is near, and
// tells whether that was all. An error changes nothing: the status is the answer.
func (c *conn) readBody(ctx context.Context, response *http.Response, most int) (beginning []byte, isWhole bool) {
	if response.Body == http.NoBody {
		return nil, true
	}
	if n := response.ContentLength; n < 0 || n > int64(c.in.Buffered()) {
		_ = c.SetReadDeadline(time.Now().Add(bodyTime))
		defer func() { _ = c.SetReadDeadline(time.Time{}) }()
		if ctx.Err() != nil {
			return nil, false
		}
	}
	return readBeginning(response.Body, most)
}

// readBeginning reads the first bytes of a body, and then some more to get to its
// end, and tells whether it got there.
func readBeginning(body io.Reader, most int) (beginning []byte, isWhole bool) {
	var err error
	if most > 0 {
		if beginning, err = io.ReadAll(io.LimitReader(body, int64(most))); err != nil {
			return beginning, false // it would say of itself that it is at its end now
		}
	}
	_, err = io.CopyN(io.Discard, body, drainBytes)
	return beginning, errors.Is(err, io.EOF)
}
