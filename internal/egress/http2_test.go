package egress

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// network2 starts an HTTP/2 receiver on an in-memory network, for tests with fake time.
func network2(t *testing.T, h http.HandlerFunc) (pipes, Policy) {
	t.Helper()
	network := newPipes()
	s := httptest.NewUnstartedServer(h)
	_ = s.Listener.Close()
	s.Listener, s.EnableHTTP2 = network, true
	s.StartTLS()
	t.Cleanup(s.Close)
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	return network, Policy{RootCAs: roots}
}

// No request fails because of the receiver's limit of concurrent streams.
func TestConcurrentStreamsAreLimited(t *testing.T) {
	const limit, requests = 2, 40
	var most atomic.Int64
	s := &server{Server: httptest.NewUnstartedServer(nil)}
	var perConnection sync.Map
	s.Config.Handler = http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		count, _ := perConnection.LoadOrStore(r.RemoteAddr, &atomic.Int64{})
		n := count.(*atomic.Int64).Add(1)
		defer count.(*atomic.Int64).Add(-1)
		for seen := most.Load(); n > seen && !most.CompareAndSwap(seen, n); seen = most.Load() {
		}
	})
	s.Config.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: limit}
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.EnableHTTP2 = true
	s.StartTLS()
	t.Cleanup(s.Close)
	client := s.client(t, inside)
	var all sync.WaitGroup
	for range requests {
		all.Go(func() {
			if status, _, _, err := client.Exchange(t.Context(), post(t, s.URL, strings.Repeat("x", 1000)), 10); status != 200 || err != nil {
				t.Errorf("got %d, %v; want 200", status, err)
			}
		})
	}
	all.Wait()
	if got := most.Load(); got > limit {
		t.Errorf("%d concurrent streams, want at most %d", got, limit)
	}
}

// A receiver may respond before it has read a large body.
func TestEarlyResponseOverHTTP2(t *testing.T) {
	for _, want := range []int{http.StatusOK, http.StatusRequestEntityTooLarge} {
		s := serve(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(want) })
		status, _, _, err := s.client(t, inside).Exchange(t.Context(), post(t, s.URL, strings.Repeat("x", 64<<20)), 10)
		if status != want || err != nil {
			t.Errorf("got %d, %v; want %d", status, err, want)
		}
	}
}

// A body without an end is read for at most bodyTime. The connection stays usable.
func TestEndlessBodyOverHTTP2(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network, policy := network2(t, func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				_, _ = io.WriteString(w, "0123456789")
				_ = http.NewResponseController(w).Flush()
				time.Sleep(100 * time.Millisecond)
			}
		})
		client := newClient(policy, network.dial)
		defer client.transport.CloseIdleConnections()
		began := time.Now()
		status, _, beginning, err := client.Exchange(t.Context(), post(t, "https://example.com/", "body"), 15)
		if status != 200 || string(beginning) != "012345678901234" || err != nil {
			t.Errorf("got %d, %q, %v; want 200 and the beginning", status, beginning, err)
		}
		if took := time.Since(began); took != bodyTime {
			t.Errorf("took %s, want %s", took, bodyTime)
		}
		time.Sleep(2 * time.Second) // the handler notices the end
	})
}

// mortalConn is a connection that can fail silently: writes are then lost, and reads block.
type mortalConn struct {
	net.Conn
	isDead atomic.Bool
	closed chan struct{}
	once   sync.Once
}

func (c *mortalConn) Write(p []byte) (int, error) {
	if c.isDead.Load() {
		return len(p), nil
	}
	return c.Conn.Write(p)
}

func (c *mortalConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if c.isDead.Load() {
		<-c.closed
		return 0, net.ErrClosed
	}
	return n, err
}

func (c *mortalConn) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}

func TestDeadHTTP2ConnectionIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network, policy := network2(t, answer("ok"))
		var dialled []*mortalConn
		client := newClient(policy, func(ctx context.Context, to, address string) (net.Conn, error) {
			conn, err := network.dial(ctx, to, address)
			dialled = append(dialled, &mortalConn{Conn: conn, closed: make(chan struct{})})
			return dialled[len(dialled)-1], err
		})
		defer client.transport.CloseIdleConnections()
		exchange := func() error {
			_, _, _, err := client.Exchange(t.Context(), post(t, "https://example.com/", "body"), 10)
			return err
		}
		if err := exchange(); err != nil {
			t.Fatal(err)
		}
		dialled[0].isDead.Store(true)
		began := time.Now()
		if err := exchange(); classOf(err) != "closed" {
			t.Errorf("dead connection: got %v, want the class closed", err)
		}
		if took := time.Since(began); took > pingAfter+pingTimeout {
			t.Errorf("the dead connection was used for %s, want at most %s", took, pingAfter+pingTimeout)
		}
		if err := exchange(); err != nil || len(dialled) != 2 {
			t.Errorf("afterwards: got %v over %d connections, want a response over the second one", err, len(dialled))
		}
	})
}

// rawHTTP2 returns a client of a receiver that calls serve for each connection after the TLS
// handshake, so that a test controls the frames. In a synctest bubble the listener must be in memory.
func rawHTTP2(t *testing.T, listener net.Listener, dial dialFunc, serve func(wire net.Conn, f *http2.Framer)) (c *Client, connections *atomic.Int64) {
	t.Helper()
	known := httptest.NewUnstartedServer(nil) // for its certificate
	_ = known.Listener.Close()
	known.Listener = newPipes()
	known.StartTLS()
	defer known.Close()
	policy := Policy{RootCAs: x509.NewCertPool()}
	policy.RootCAs.AddCert(known.Certificate())
	config := &tls.Config{Certificates: known.TLS.Certificates, NextProtos: []string{"h2"}}
	connections = new(atomic.Int64)
	serveAll(t, listener, func(wire net.Conn) {
		conn := tls.Server(wire, config)
		preface := make([]byte, len(http2.ClientPreface))
		if _, err := io.ReadFull(conn, preface); err != nil || string(preface) != http2.ClientPreface {
			return // HTTP/2 was not offered, or the connection is not needed
		}
		connections.Add(1)
		serve(wire, http2.NewFramer(conn, conn))
	})
	c = newClient(policy, dial)
	t.Cleanup(c.transport.CloseIdleConnections)
	return c, connections
}

// rawTCP is rawHTTP2 with a TCP listener, for tests outside of bubbles.
func rawTCP(t *testing.T, serve func(f *http2.Framer)) (c *Client, connections *atomic.Int64) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	dial := func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, listener.Addr().String())
	}
	return rawHTTP2(t, listener, dial, func(_ net.Conn, f *http2.Framer) { serve(f) })
}

// The number of dials for one request to a receiver that refuses all streams is limited.
func TestDialsToAReceiverWithoutStreamsAreLimited(t *testing.T) {
	for claim, begin := range map[string]func(*http2.Framer) error{
		"no stream is allowed": func(f *http2.Framer) error {
			return f.WriteSettings(http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: 0})
		},
		"each connection ends at once": func(f *http2.Framer) error {
			return errors.Join(f.WriteSettings(), f.WriteGoAway(0, http2.ErrCodeNo, nil))
		},
	} {
		refuses := claim == "no stream is allowed"
		t.Run(claim, func(t *testing.T) {
			client, connections := rawTCP(t, func(f *http2.Framer) {
				if err := begin(f); err != nil {
					return
				}
				for {
					frame, err := f.ReadFrame()
					if err != nil {
						return
					}
					if id := frame.Header().StreamID; frame.Header().Type == http2.FrameHeaders && refuses {
						_ = f.WriteRSTStream(id, http2.ErrCodeRefusedStream)
					}
				}
			})
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			status, _, _, err := client.Exchange(ctx, post(t, "https://example.com/", "body"), 10)
			if err == nil || ctx.Err() != nil {
				t.Errorf("got %d, %v, ctx %v; want an immediate error", status, err, ctx.Err())
			}
			if got := connections.Load(); got > http2Dials {
				t.Errorf("got %d connections, want at most %d", got, http2Dials)
			}
		})
	}
}

// The settings limit how much a receiver may send before the client reads.
func TestHTTP2BuffersAreSmall(t *testing.T) {
	got := make(chan map[http2.SettingID]uint32, 1)
	client, _ := rawTCP(t, func(f *http2.Framer) {
		frame, err := f.ReadFrame()
		if settings, isSettings := frame.(*http2.SettingsFrame); err == nil && isSettings {
			all := map[http2.SettingID]uint32{}
			_ = settings.ForeachSetting(func(s http2.Setting) error { all[s.ID] = s.Val; return nil })
			got <- all
		}
	})
	_, _, _ = client.Send(t.Context(), post(t, "https://example.com/", "body"))
	all := <-got
	for id, most := range map[http2.SettingID]uint32{
		http2.SettingInitialWindowSize: maxStreamBuffer, http2.SettingMaxFrameSize: 16 << 10, http2.SettingMaxHeaderListSize: maxHeaderBytes + 1<<10,
	} {
		if value, isSet := all[id]; !isSet || value > most {
			t.Errorf("%s: got %d, want at most %d", id, value, most)
		}
	}
	if value, isSet := all[http2.SettingEnablePush]; !isSet || value != 0 {
		t.Errorf("server push is enabled")
	}
}

// The connection to a receiver that sends and does not read is closed.
func TestConnectionToAReceiverThatDoesNotReadIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := make(chan time.Duration, 1)
		began := time.Now()
		network := newPipes()
		client, _ := rawHTTP2(t, network, network.dial, func(wire net.Conn, f *http2.Framer) {
			_ = f.WriteSettings()
			for isBegun, isAcknowledged := false, false; !isBegun || !isAcknowledged; {
				frame, err := f.ReadFrame()
				if err != nil {
					break
				}
				isBegun = isBegun || frame.Header().Type == http2.FrameHeaders
				isAcknowledged = isAcknowledged || frame.Header().Type == http2.FrameSettings && frame.Header().Flags.Has(http2.FlagSettingsAck)
			}
			for f.WriteWindowUpdate(0, 1) == nil {
				time.Sleep(time.Second)
			}
			ended <- time.Since(began)
			_ = wire.Close()
		})
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		if _, _, err := client.Send(ctx, post(t, "https://example.com/", strings.Repeat("x", 1<<20))); classOf(err) != "timeout" {
			t.Errorf("got %v, want a timeout", err)
		}
		if took := <-ended; took > 2*writeTimeout {
			t.Errorf("the connection was open for %s, want at most %s", took, 2*writeTimeout)
		}
	})
}

// HTTP/2 is not offered while maxHTTP2 connections are open.
func TestHTTP2ConnectionsAreLimited(t *testing.T) {
	s := serve(t, answer("ok"))
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	d := &tlsDialer{
		open:  new(atomic.Int64),
		dial:  (&net.Dialer{}).DialContext,
		http1: tlsConfig(Policy{RootCAs: roots}, "http/1.1"), http2: tlsConfig(Policy{RootCAs: roots}, "h2", "http/1.1"),
	}
	dial := func() *tls.Conn {
		conn, err := d.dialTLS(t.Context(), "tcp", s.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		return conn.(*tls.Conn)
	}
	d.open.Store(maxHTTP2 - 1)
	last, beyond := dial(), dial()
	if a, b := last.ConnectionState().NegotiatedProtocol, beyond.ConnectionState().NegotiatedProtocol; a != "h2" || b == "h2" {
		t.Errorf("got %q and %q, want h2 and not h2", a, b)
	}
	_, _, _ = beyond.Close(), last.Close(), last.Close()
	if got := d.open.Load(); got != maxHTTP2-1 {
		t.Errorf("%d HTTP/2 connections are open, want %d", got, maxHTTP2-1)
	}
	s.TLS.NextProtos = []string{"http/1.1"}
	defer func(c *tls.Conn) { _ = c.Close() }(dial())
	failing := d.http2.Clone()
	failing.RootCAs = x509.NewCertPool()
	d.http2 = failing
	if _, err := d.dialTLS(t.Context(), "tcp", s.Listener.Addr().String()); err == nil {
		t.Error("an untrusted certificate was accepted")
	}
	if got := d.open.Load(); got != maxHTTP2-1 {
		t.Errorf("after a receiver without HTTP/2 and a failed handshake: %d HTTP/2 connections are open, want %d", got, maxHTTP2-1)
	}
}

// A status below 100 is not a valid response.
func TestInvalidStatusOverHTTP2(t *testing.T) {
	client, _ := rawTCP(t, func(f *http2.Framer) {
		_ = f.WriteSettings()
		for {
			frame, err := f.ReadFrame()
			if err != nil {
				return
			}
			if _, isHeaders := frame.(*http2.HeadersFrame); isHeaders {
				var block bytes.Buffer
				_ = hpack.NewEncoder(&block).WriteField(hpack.HeaderField{Name: ":status", Value: "042"})
				_ = f.WriteHeaders(http2.HeadersFrameParam{StreamID: frame.Header().StreamID, BlockFragment: block.Bytes(), EndHeaders: true, EndStream: true})
			}
		}
	})
	if status, _, _, err := client.Exchange(t.Context(), post(t, "https://example.com/", "body"), 10); classOf(err) != "closed" {
		t.Errorf("got %d, %v; want the class closed", status, err)
	}
}
