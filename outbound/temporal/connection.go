//go:build temporal

package temporal

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync/atomic"
	"time"

	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
)

// connection is a connection to a frontend of Temporal.
type connection struct {
	conn    *grpc.ClientConn
	service workflowservice.WorkflowServiceClient
	name    string // of the gateway
	retired atomic.Bool
	trouble atomic.Pointer[error] // why the server cannot be reached now: the errors of gRPC do not wrap the cause
}

// Bounds of what a server may send, in bytes. The gateway receives acknowledgements only.
const (
	maxAnswer  = 64 << 10
	maxHeaders = 64 << 10
)

// open returns a connection, which connects at the first request.
func (t *transport) open(context.Context) (*connection, error) {
	c := &connection{name: t.brokers.Name}
	secure := insecure.NewCredentials()
	if t.target.UsesTLS() {
		config := t.brokers.TLSConfig(t.target.CA)
		if pair, isSet := t.target.KeyPair(); isSet {
			config.Certificates = []tls.Certificate{pair}
		}
		secure = credentials.NewTLS(config)
	}
	const pingAfter, pingTimeout = 30 * time.Second, 15 * time.Second // as the SDKs of Temporal
	var err error
	c.conn, err = grpc.NewClient("passthrough:///"+t.target.Address, grpc.WithTransportCredentials(watched{secure, c}),
		grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			if c.retired.Load() { // gRPC would connect again and again, without a request
				return nil, net.ErrClosed
			}
			conn, err := t.brokers.Dial(ctx, address)
			return conn, c.failed(err)
		}),
		grpc.WithUserAgent(c.name), grpc.WithDisableServiceConfig(), grpc.WithMaxHeaderListSize(maxHeaders),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: pingAfter, Timeout: pingTimeout, PermitWithoutStream: true}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxAnswer)))
	if err != nil {
		return nil, err
	}
	c.service = workflowservice.NewWorkflowServiceClient(c.conn)
	return c, nil
}

// IsClosed implements brokers.Lendable.
func (c *connection) IsClosed() bool { return c.retired.Load() }

// Close implements brokers.Lendable.
func (c *connection) Close() { _ = c.conn.Close() }

// failed stores why the server cannot be reached, and returns the error.
func (c *connection) failed(err error) error {
	if err != nil {
		c.trouble.Store(&err)
	}
	return err
}

// watched are transport credentials that store why a handshake or a connection failed.
type watched struct {
	credentials.TransportCredentials
	c *connection
}

// ClientHandshake implements credentials.TransportCredentials.
func (w watched) ClientHandshake(ctx context.Context, authority string, raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	secured, info, err := w.TransportCredentials.ClientHandshake(ctx, authority, raw)
	if err != nil {
		return secured, info, w.c.failed(err)
	}
	w.c.trouble.Store(nil)
	return watchedConn{secured, w.c}, info, nil
}

// Clone implements credentials.TransportCredentials.
func (w watched) Clone() credentials.TransportCredentials {
	return watched{w.TransportCredentials.Clone(), w.c}
}

// watchedConn stores why reading or writing first failed: a server refuses a client certificate after the
// handshake.
type watchedConn struct {
	net.Conn
	c *connection
}

func (w watchedConn) Read(p []byte) (int, error) {
	n, err := w.Conn.Read(p)
	return n, w.failed(err)
}

func (w watchedConn) Write(p []byte) (int, error) {
	n, err := w.Conn.Write(p)
	if err != nil { // the server has closed the connection: it may have sent the reason before
		_ = w.SetReadDeadline(time.Now().Add(time.Second))
		_, _ = w.Read(make([]byte, 1))
	}
	return n, w.failed(err)
}

func (w watchedConn) failed(err error) error {
	if err != nil && !errors.Is(err, net.ErrClosed) { // which follows another error
		w.c.trouble.CompareAndSwap(nil, &err)
	}
	return err
}
