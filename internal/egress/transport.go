package egress

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"
)

// The bounds of every connection.
const (
	connectTimeout = 5 * time.Second // to connect, and again for TLS
	idleTimeout    = 30 * time.Second
	maxHeaderBytes = 64 << 10 // of a response and its interim (1xx) responses
	// A host has up to maxIdlePerHost idle connections. Beyond maxIdle in total, the
	// connection that was idle for the longest time is closed.
	maxIdle        = 1024
	maxIdlePerHost = 256
)

// The bounds of HTTP/2.
const (
	// maxHTTP2 bounds the open HTTP/2 connections, which net/http does not count as
	// idle. At the limit, new connections use HTTP/1.1.
	maxHTTP2 = 1024
	// http2Dials bounds the HTTP/2 connections that one request may open in sequence.
	// At the limit, its next connection uses HTTP/1.1. Without the limit, net/http would
	// dial in a loop if a receiver refuses each new stream or closes each connection.
	http2Dials = 2
	// pingAfter and pingTimeout bound how long a dead connection is used.
	pingAfter    = 10 * time.Second
	pingTimeout  = 5 * time.Second
	writeTimeout = 10 * time.Second // without one byte written
	// The bytes that a receiver may send before they are read. A frame has at most
	// 16 KB, which is the default.
	maxStreamBuffer     = 64 << 10
	maxConnectionBuffer = 1 << 20
)

type dialFunc func(ctx context.Context, network, address string) (net.Conn, error)

// newTransport returns the transport of a Client. It uses HTTP/2 if the receiver offers it,
// but not through a proxy. open counts the HTTP/2 connections.
func newTransport(p Policy, dial dialFunc, open *atomic.Int64) *http.Transport {
	t := &http.Transport{
		DialContext:            dial,
		Protocols:              new(http.Protocols),
		DisableCompression:     true, // the excerpt shows the bytes that the receiver sent
		IdleConnTimeout:        idleTimeout,
		MaxIdleConns:           maxIdle,
		MaxIdleConnsPerHost:    maxIdlePerHost,
		MaxResponseHeaderBytes: maxHeaderBytes,
	}
	t.Protocols.SetHTTP1(true)
	if p.Proxy != nil {
		t.Proxy, t.OnProxyConnectResponse = http.ProxyURL(p.Proxy), onProxyConnectResponse
		t.TLSClientConfig, t.TLSHandshakeTimeout = tlsConfig(p, "http/1.1"), connectTimeout
		return t
	}
	t.Protocols.SetHTTP2(true)
	t.HTTP2 = &http.HTTP2Config{
		SendPingTimeout:               pingAfter,
		PingTimeout:                   pingTimeout,
		WriteByteTimeout:              writeTimeout,
		MaxReceiveBufferPerStream:     maxStreamBuffer,
		MaxReceiveBufferPerConnection: maxConnectionBuffer,
	}
	t.DialTLSContext = (&tlsDialer{
		dial: dial, http1: tlsConfig(p, "http/1.1"), http2: tlsConfig(p, "h2", "http/1.1"), open: open,
	}).dialTLS
	return t
}

func tlsConfig(p Policy, protocols ...string) *tls.Config {
	return &tls.Config{RootCAs: p.RootCAs, Certificates: p.certificates, MinVersion: tls.VersionTLS12, NextProtos: protocols}
}

// onProxyConnectResponse accepts a proxy's 200 to CONNECT and nothing else.
func onProxyConnectResponse(_ context.Context, _ *url.URL, _ *http.Request, response *http.Response) error {
	if response.StatusCode != http.StatusOK {
		return errProxyRefused
	}
	return nil
}

// tlsDialer connects with TLS and decides whether a connection offers HTTP/2.
type tlsDialer struct {
	dial         dialFunc
	http1, http2 *tls.Config
	open         *atomic.Int64 // connections that use HTTP/2 or may negotiate it
}

func (d *tlsDialer) dialTLS(ctx context.Context, network, address string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	wire, err := d.dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	config, release := d.http1, func() {}
	if d.reserve(ctx) {
		config, release = d.http2, sync.OnceFunc(func() { d.open.Add(-1) })
		wire = &releasingConn{wire, release}
	}
	config = config.Clone()
	config.ServerName = host
	conn := tls.Client(wire, config)
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	if err := conn.HandshakeContext(ctx); err != nil {
		_ = wire.Close()
		return nil, err
	}
	if conn.ConnectionState().NegotiatedProtocol != "h2" {
		release()
	}
	return conn, nil
}

// reserve counts one more HTTP/2 connection, and reports whether the limits allow it.
func (d *tlsDialer) reserve(ctx context.Context) bool {
	if dials, isCounted := ctx.Value(dialsKey{}).(*countedDials); isCounted && dials.n.Add(1) > http2Dials {
		return false
	}
	if d.open.Add(1) > maxHTTP2 {
		d.open.Add(-1)
		return false
	}
	return true
}

// releasingConn calls release when it is closed. release must allow repeated calls.
type releasingConn struct {
	net.Conn
	release func()
}

func (c *releasingConn) Close() error {
	c.release()
	return c.Conn.Close()
}

// countedDials is the context of one request. It counts the connections that
// net/http opens for the request.
type countedDials struct {
	context.Context //nolint:containedctx // this type is a context
	n               atomic.Int32
}

type dialsKey struct{}

func (c *countedDials) Value(key any) any {
	if key == (dialsKey{}) {
		return c
	}
	return c.Context.Value(key)
}
