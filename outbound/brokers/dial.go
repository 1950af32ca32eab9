package brokers

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"github.com/eventhook/eventhook"
)

// dial connects to a server. secure, unless nil, is the configuration of TLS. The server may send as
// much as credit allows; see boundedConn.
func (b *Brokers) dial(ctx context.Context, address string, secure *tls.Config, credit *credit) (net.Conn, error) {
	plain, err := b.Dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	c := &boundedConn{Conn: plain, credit: credit}
	if secure == nil {
		return c, nil
	}
	return handshake(ctx, c, address, secure)
}

// tlsTimeout is how long a server may take for the TLS handshake.
const tlsTimeout = 10 * time.Second

// handshake makes a TLS handshake with the server at an address. It does not change config. After an
// error the connection is closed.
func handshake(ctx context.Context, c net.Conn, address string, config *tls.Config) (net.Conn, error) {
	config = config.Clone()
	config.ServerName, _, _ = net.SplitHostPort(address)
	t := tls.Client(c, config)
	limited, cancel := context.WithTimeout(ctx, tlsTimeout)
	defer cancel()
	err := t.HandshakeContext(limited)
	if err == nil {
		return t, nil
	}
	_ = c.Close()
	if errors.Is(err, context.DeadlineExceeded) { // such as from a server that waits for the end of a line
		silent := Errorf(eventhook.ErrorTLS, "%s does not answer the TLS handshake; check whether it uses TLS", address)
		return nil, fmt.Errorf("%w (%w)", silent, err)
	}
	return nil, err
}

// within calls f, which uses a connection. When ctx ends, the connection fails, and within returns
// the error of ctx.
func within(ctx context.Context, c net.Conn, f func() error) error {
	stop := context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })
	err := f()
	if !stop() {
		return ctx.Err()
	}
	return err
}

// Bounds of what a broker may send, in bytes.
const (
	minCredit = 1 << 20
	maxCredit = 64 << 20
)

// maxWrite is the time in which a broker must read what it is sent.
const maxWrite = 15 * time.Second

var errTooMuch = &Error{eventhook.ErrorClosed, "the server sends more than it was asked for"}

// errTooLarge is described with the number of bytes for users of a consumer.
var errTooLarge = &Error{eventhook.ErrorClosed, "the server sent a message that is larger than the gateway reads"}

// credit is the number of bytes that a broker may send.
type credit struct{ atomic.Int64 }

func newCredit(bytes int64) *credit {
	c := &credit{}
	c.Store(bytes)
	return c
}

// boundedConn is a connection to a broker. The broker may send little more than it was sent, so that
// the memory for its answers is bounded: clients of brokers bound it only in part. A consumer sets the
// credit each time when it asks for messages.
type boundedConn struct {
	net.Conn
	credit *credit
}

// Read closes the connection after an error, so that a Write that is blocked ends. amqp091-go would
// wait for the Write before it closes the connection.
func (c *boundedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if c.credit.Add(-int64(n)) < 0 {
		n, err = 0, errTooMuch
	}
	if err != nil {
		_ = c.Conn.Close()
	}
	return n, err
}

func (c *boundedConn) Write(p []byte) (int, error) {
	if err := c.SetWriteDeadline(time.Now().Add(maxWrite)); err != nil {
		return 0, err
	}
	n, err := c.Conn.Write(p)
	if c.credit.Load() < maxCredit {
		c.credit.Add(int64(n))
	}
	return n, err
}
