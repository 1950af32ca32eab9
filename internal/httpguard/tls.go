package httpguard

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"sync"
	"time"

	"github.com/eventhook/eventhook/internal/panics"
)

// TLSListener accepts TLS connections for an http.Server that uses Handler. Connections with
// HTTP/2 are *tls.Conn, which net/http serves as HTTP/2: its frames end a request, so Handler has
// nothing to check. All other connections are checked like those of Listener, below TLS.
//
// The handshakes run concurrently, so that a slow client delays no other connection. Close ends
// the handshakes in progress.
type TLSListener struct {
	inner     net.Listener
	config    *tls.Config
	timeout   time.Duration // of a handshake
	accepted  chan net.Conn
	failed    chan error      // of the inner listener
	closing   context.Context //nolint:containedctx // ends the handshakes when the listener is closed
	close     context.CancelFunc
	handshake sync.WaitGroup
}

// NewTLSListener returns a listener of TLS connections. A client has the timeout for its
// handshake. Close must be called.
func NewTLSListener(inner net.Listener, config *tls.Config, timeout time.Duration) *TLSListener {
	closing, cancel := context.WithCancel(context.Background())
	l := &TLSListener{inner: inner, config: config, timeout: timeout, accepted: make(chan net.Conn), failed: make(chan error), closing: closing, close: cancel}
	l.handshake.Go(panics.Guarded(l.acceptAll))
	return l
}

// Addr returns the address of the listener.
func (l *TLSListener) Addr() net.Addr { return l.inner.Addr() }

// Close stops accepting and waits until the handshakes in progress have ended.
func (l *TLSListener) Close() error {
	l.close()
	err := l.inner.Close()
	l.handshake.Wait()
	return err
}

// Accept returns the next connection whose handshake has succeeded.
func (l *TLSListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.accepted:
		return c, nil
	case err := <-l.failed:
		return nil, err
	case <-l.closing.Done():
		return nil, net.ErrClosed
	}
}

// acceptAll accepts connections until the listener is closed. net/http calls Accept again after
// a temporary error, such as too many open files.
func (l *TLSListener) acceptAll() {
	for {
		c, err := l.inner.Accept()
		if err == nil {
			l.handshake.Go(panics.Guarded(func() { l.shakeHands(c) }))
			continue
		}
		select {
		case l.failed <- err:
		case <-l.closing.Done():
		}
		if errors.Is(err, net.ErrClosed) {
			return
		}
	}
}

// plainAnswer is the answer to a client that does not use TLS.
const plainAnswer = "HTTP/1.0 400 Bad Request\r\nContent-Type: text/plain\r\n\r\nThis listener serves HTTPS; the request used HTTP.\n"

// shakeHands does the handshake of a connection and passes the connection to Accept.
func (l *TLSListener) shakeHands(c net.Conn) {
	ctx, cancel := context.WithTimeout(l.closing, l.timeout)
	defer cancel()
	shaken := tls.Server(c, l.config)
	if err := shaken.HandshakeContext(ctx); err != nil {
		if plain, ok := errors.AsType[tls.RecordHeaderError](err); ok && plain.Conn != nil && isHTTP(plain.RecordHeader) {
			_ = c.SetWriteDeadline(time.Now().Add(time.Second))
			_, _ = io.WriteString(c, plainAnswer) // the client may be gone
		}
		_ = c.Close()
		return
	}
	var ready net.Conn = shaken
	if shaken.ConnectionState().NegotiatedProtocol != "h2" {
		ready = &tlsConn{conn: conn{Conn: shaken}, shaken: shaken}
	}
	select {
	case l.accepted <- ready:
	case <-l.closing.Done():
		_ = c.Close()
	}
}

// isHTTP reports whether the first bytes of a connection begin a request without TLS.
func isHTTP(header [5]byte) bool {
	switch string(header[:]) {
	case "GET /", "HEAD ", "POST ", "PUT /", "OPTIO", "DELET", "PATCH":
		return true
	}
	return false
}

// tlsConn is a checked connection over TLS. net/http finds ConnectionState and sets the field TLS
// of requests.
type tlsConn struct {
	conn
	shaken *tls.Conn
}

// ConnectionState returns the state of TLS.
func (c *tlsConn) ConnectionState() tls.ConnectionState { return c.shaken.ConnectionState() }
