package egress

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// server counts the connections that are made to it.
type server struct {
	*httptest.Server
	connections atomic.Int64
}

func serve(t *testing.T, h http.HandlerFunc) *server { return serveVersion(t, h, 2) }

func serveVersion(t testing.TB, h http.HandlerFunc, version int) *server {
	t.Helper()
	s := &server{Server: httptest.NewUnstartedServer(h)}
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			s.connections.Add(1)
		}
	}
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.EnableHTTP2 = version == 2
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

// client returns a Client with the policy p that also trusts the server.
func (s *server) client(t testing.TB, p Policy) *Client {
	t.Helper()
	p.RootCAs = x509.NewCertPool()
	p.RootCAs.AddCert(s.Certificate())
	c := New(p)
	t.Cleanup(c.transport.CloseIdleConnections)
	return c
}

func answer(body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, body) }
}

var inside = Policy{AllowPrivate: true}

func TestGet(t *testing.T) {
	asked := make(chan *http.Request, 1)
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		asked <- r
		w.Header().Set("Content-Type", "application/jwk-set+json")
		w.Header().Set("Cache-Control", "public, max-age=3600")
		w.Header().Set("Set-Cookie", "a=b; Path=/")
		_, _ = io.WriteString(w, "keys")
	})
	c := s.client(t, inside)
	c.UserAgent = "gateway/1"
	for range 2 {
		got, err := c.Get(t.Context(), s.URL+"/keys?a=b", 4)
		if err != nil || string(got.Body) != "keys" || got.ContentType != "application/jwk-set+json" || got.MaxAge != time.Hour {
			t.Errorf("got %+v, %v; want the keys, their content type and a max age of an hour", got, err)
		}
		r := <-asked
		if r.Method != http.MethodGet || r.RequestURI != "/keys?a=b" || r.UserAgent() != "gateway/1" || len(r.Cookies()) > 0 || r.Header.Get("Accept-Encoding") != "" {
			t.Errorf("got the request %s %s with the header %v, want GET /keys?a=b with the user agent gateway/1 only", r.Method, r.RequestURI, r.Header)
		}
	}
	if got := s.connections.Load(); got != 1 {
		t.Errorf("connections: got %d, want 1 that is reused", got)
	}
}

func TestGetRejectsResponses(t *testing.T) {
	elsewhere := serve(t, answer("keys"))
	const secret = "what the server says"
	for _, c := range []struct {
		claim  string
		answer http.HandlerFunc
		want   error
	}{
		{"not found", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, secret, http.StatusNotFound) }, StatusError(404)},
		{"another success", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }, StatusError(204)},
		{"a redirect", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, elsewhere.URL, http.StatusFound)
		}, StatusError(302)},
		{"one byte too many", answer(strings.Repeat("x", 101)), ErrTooLarge},
		{"far too many bytes", func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				if _, err := io.WriteString(w, strings.Repeat(secret, 100)); err != nil {
					return
				}
			}
		}, ErrTooLarge},
		{"a header that is too large", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Long", strings.Repeat(secret, 2*maxHeaderBytes/len(secret)))
		}, nil},
		{"a response that is cut", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, nil},
		{"a response that is not HTTP", func(w http.ResponseWriter, _ *http.Request) {
			conn, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				panic(http.ErrAbortHandler) // HTTP/2 only
			}
			_, _ = io.WriteString(conn, secret+"\r\n\r\n")
			_ = conn.Close()
		}, nil},
	} {
		for version := 1; version <= 2; version++ {
			t.Run(fmt.Sprint(c.claim, ", HTTP/", version), func(t *testing.T) {
				s := serveVersion(t, c.answer, version)
				got, err := s.client(t, inside).Get(t.Context(), s.URL, 100)
				if err == nil || got.Body != nil || c.want != nil && !errors.Is(err, c.want) {
					t.Fatalf("got %q, %v; want %v", got.Body, err, c.want)
				}
				if text := err.Error(); strings.Contains(text, secret) || strings.Contains(text, "127.0.0.1") {
					t.Errorf("the error contains the response or the address: %s", text)
				}
			})
		}
	}
	if got := elsewhere.connections.Load(); got != 0 {
		t.Errorf("connections to the target of the redirect: got %d, want none", got)
	}
}

func TestGetRejectsURLs(t *testing.T) {
	s := serve(t, answer("keys"))
	c := s.client(t, inside)
	host := strings.TrimPrefix(s.URL, "https://")
	for _, u := range []string{
		"", "keys", host, "//" + host, "http://" + host, "ftp://" + host, "file:///etc/passwd", "https:", "https:///keys", "https://:443/",
		"https:" + host, "https://user@" + host, "https://user:hunter2@" + host, "https://" + host + "/\x00", "https://" + host + "/%zz",
		"https://" + host + "/" + strings.Repeat("a", maxURL),
	} {
		if _, err := c.Get(t.Context(), u, 100); err == nil || strings.Contains(err.Error(), "hunter2") || err.Error() != errURL.Error() {
			t.Errorf("%.60q: got %v, want %v", u, err, errURL)
		}
	}
	if got := s.connections.Load(); got != 0 {
		t.Errorf("connections: got %d, want none", got)
	}
}

func TestGetRejectsUntrustedCertificates(t *testing.T) {
	s := serve(t, answer("keys"))
	if _, err := New(inside).Get(t.Context(), s.URL, 100); err == nil || err.Error() != "the certificate of the server is not trusted" {
		t.Errorf("got %v, want an error about an untrusted certificate", err)
	}
}

func TestUnknownHostName(t *testing.T) {
	c := newClient(Policy{}, func(context.Context, string, string) (net.Conn, error) {
		return nil, &net.OpError{Op: "dial", Err: &net.DNSError{Err: "no such host", Name: "example.com", Server: "10.0.0.2:53", IsNotFound: true}}
	})
	if _, err := c.Get(t.Context(), "https://example.com/", 100); err == nil || err.Error() != "the name of the server is not known" {
		t.Errorf("got %v, want an error about an unknown name", err)
	}
}

func TestGetUsesNoProxy(t *testing.T) {
	s := serve(t, answer("keys"))
	t.Setenv("HTTPS_PROXY", "http://"+strings.TrimPrefix(s.URL, "https://"))
	if s.client(t, inside).transport.Proxy != nil {
		t.Error("the proxy of the environment is used, want no proxy")
	}
}

func TestConcurrentGets(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.URL.RawQuery) })
	c := s.client(t, inside)
	var gets sync.WaitGroup
	for i := range 50 {
		gets.Go(func() {
			want := fmt.Sprint(i)
			if got, err := c.Get(t.Context(), s.URL+"?"+want, 100); err != nil || string(got.Body) != want {
				t.Errorf("got %q, %v; want %q", got.Body, err, want)
			}
		})
	}
	gets.Wait()
}

// pipes is an in-memory network with one listener, for tests with fake time.
type pipes struct {
	conns chan net.Conn
	close func() // may be called again
}

func newPipes() pipes {
	p := pipes{conns: make(chan net.Conn, 1)}
	p.close = sync.OnceFunc(func() { close(p.conns) })
	return p
}

func (p pipes) Accept() (net.Conn, error) {
	if conn, open := <-p.conns; open {
		return conn, nil
	}
	return nil, net.ErrClosed
}

func (p pipes) Close() error   { p.close(); return nil }
func (p pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 443} }

func (p pipes) dial(context.Context, string, string) (net.Conn, error) {
	near, far := net.Pipe()
	p.conns <- far
	return near, nil
}

// hang blocks until the client has closed the connection, and longer, because the client could
// mistake the end of the handler for the end of the response.
func hang(r *http.Request) {
	<-r.Context().Done()
	panic(http.ErrAbortHandler)
}

func TestGetTimesOut(t *testing.T) {
	for _, c := range []struct {
		claim  string
		answer http.HandlerFunc
	}{
		{"no response", func(_ http.ResponseWriter, r *http.Request) { hang(r) }},
		{"part of a body", func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, "ke")
			_ = http.NewResponseController(w).Flush()
			hang(r)
		}},
		{"an endless body", func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				_, _ = io.WriteString(w, "k")
				_ = http.NewResponseController(w).Flush()
				time.Sleep(time.Second)
			}
			hang(r)
		}},
	} {
		t.Run(c.claim, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				network := newPipes()
				s := httptest.NewUnstartedServer(c.answer)
				_ = s.Listener.Close()
				s.Listener = network
				s.StartTLS()
				defer s.Close()
				roots := x509.NewCertPool()
				roots.AddCert(s.Certificate())
				client := newClient(Policy{RootCAs: roots}, network.dial)
				defer client.transport.CloseIdleConnections()
				began := time.Now()
				if _, err := client.Get(t.Context(), "https://example.com/", 100); !errors.Is(err, context.DeadlineExceeded) || err.Error() != "no complete answer from the server within 10 s" {
					t.Errorf("got %v, want no complete answer within 10 s", err)
				}
				if got := time.Since(began); got != 10*time.Second {
					t.Errorf("took %s, want 10s", got)
				}
				ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
				defer cancel()
				began = time.Now()
				if _, err := client.Get(ctx, "https://example.com/", 100); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("with a ctx of 3s: got %v, want %v", err, context.DeadlineExceeded)
				}
				if got := time.Since(began); got != 3*time.Second {
					t.Errorf("with a ctx of 3s: took %s, want 3s", got)
				}
			})
		})
	}
}

func TestHandshakeTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := newPipes()
		client := newClient(Policy{}, network.dial)
		began := time.Now()
		if _, err := client.Get(t.Context(), "https://example.com/", 100); err == nil || err.Error() != "no connection to the server in time" {
			t.Errorf("got %v, want an error about the time", err)
		}
		if got := time.Since(began); got != connectTimeout {
			t.Errorf("took %s, want %s", got, connectTimeout)
		}
	})
}

func TestDialTimesOut(t *testing.T) {
	for _, p := range []Policy{{}, {Proxy: &url.URL{Scheme: "http", Host: "proxy.example:3128"}}} {
		if got := p.dialer().Timeout; got != connectTimeout {
			t.Errorf("proxy %v: dial timeout %s, want %s", p.Proxy, got, connectTimeout)
		}
	}
}

func TestGetCanBeCancelled(t *testing.T) {
	began := make(chan struct{})
	s := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		close(began)
		<-r.Context().Done()
	})
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-began; cancel() }()
	if _, err := s.client(t, inside).Get(ctx, s.URL, 100); !errors.Is(err, context.Canceled) || err.Error() != "the request was cancelled" {
		t.Errorf("got %v, want the request was cancelled", err)
	}
}

func TestMaxAge(t *testing.T) {
	for _, c := range []struct {
		claim string
		lines []string
		want  time.Duration
	}{
		{"none", nil, 0},
		{"one", []string{"max-age=60"}, time.Minute},
		{"among others", []string{"public, max-age=60 , must-revalidate"}, time.Minute},
		{"in another line", []string{"public", "max-age=60"}, time.Minute},
		{"in capitals and quotes", []string{`Max-Age="60"`}, time.Minute},
		{"two", []string{"max-age=60, max-age=90"}, time.Minute},
		{"not to be kept", []string{"max-age=60, no-store"}, 0},
		{"not to be used unasked", []string{"no-cache, max-age=60"}, 0},
		{"for caches of many", []string{"s-maxage=60"}, 0},
		{"negative", []string{"max-age=-60"}, 0},
		{"no number", []string{"max-age=soon"}, 0},
		{"without a number", []string{"max-age"}, 0},
		{"far too long", []string{"max-age=99999999999999999999"}, (1<<31 - 1) * time.Second},
	} {
		if got := maxAge(http.Header{"Cache-Control": c.lines}); got != c.want {
			t.Errorf("%s: got %s, want %s", c.claim, got, c.want)
		}
	}
}
