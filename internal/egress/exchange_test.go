package egress

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eventhook/eventhook/internal/egress/egresstest"
)

func TestExchangeReturnsTheBeginningOfTheBody(t *testing.T) {
	long := strings.Repeat("0123456789", 10_000)
	for _, c := range []struct {
		claim string
		h     http.HandlerFunc
		want  string
	}{
		{"a short body", answer("thanks"), "thanks"},
		{"no body", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }, ""},
		{"a long body", answer(long), long[:100]},
		{"a body in chunks", func(w http.ResponseWriter, _ *http.Request) {
			for range 3 {
				_, _ = io.WriteString(w, "ab")
				_ = http.NewResponseController(w).Flush()
			}
		}, "ababab"},
		{"a body that breaks off", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1000")
			_, _ = io.WriteString(w, "half")
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}, "half"},
	} {
		address, _ := plain(t, c.h)
		status, _, got, err := sender(t, inside).Exchange(t.Context(), post(t, address, "body"), 100)
		if err != nil || status < 200 || status > 204 || string(got) != c.want {
			t.Errorf("%s: got %d, %q, %v; want %q", c.claim, status, got, err, c.want)
		}
	}
}

// A connection is reused after a response that was read to its end. If the body is too long,
// HTTP/1.1 closes the connection and HTTP/2 resets the stream.
func TestExchangeReusesConnections(t *testing.T) {
	for _, c := range []struct {
		claim         string
		version, size int
		want          int64
	}{
		{"a short body", 1, 100, 1}, {"more than is wanted", 1, 50 << 10, 1}, {"far more", 1, 100 << 20, 3},
		{"a short body", 2, 100, 1}, {"more than is wanted", 2, 50 << 10, 1}, {"far more", 2, 100 << 20, 1},
	} {
		s := serveVersion(t, func(w http.ResponseWriter, _ *http.Request) {
			piece := make([]byte, min(c.size, 1<<20))
			for range c.size / len(piece) {
				if _, err := w.Write(piece); err != nil {
					return
				}
			}
		}, c.version)
		client := s.client(t, inside)
		for range 3 {
			if status, _, _, err := client.Exchange(t.Context(), post(t, s.URL, "body"), 1000); status != 200 || err != nil {
				t.Errorf("%s, HTTP/%d: got %d, %v", c.claim, c.version, status, err)
			}
		}
		if got := s.connections.Load(); got != c.want {
			t.Errorf("%s, HTTP/%d: got %d connections, want %d", c.claim, c.version, got, c.want)
		}
	}
}

// A receiver may close an idle connection at the moment at which it is reused. The request is
// then sent again over a new connection.
func TestRequestOnAClosedIdleConnectionIsRepeated(t *testing.T) {
	var requests atomic.Int64
	address, _ := plain(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.ReadAll(r.Body)
		if requests.Add(1) == 2 {
			conn, _, _ := http.NewResponseController(w).Hijack()
			_ = conn.Close()
		}
	})
	client := sender(t, inside)
	for range 2 {
		r := post(t, address, "body")
		r.Header["Idempotency-Key"] = nil
		if status, _, _, err := client.Exchange(t.Context(), r, 0); status != 200 || err != nil {
			t.Errorf("got %d, %v; want 200", status, err)
		}
	}
	if got := requests.Load(); got != 3 {
		t.Errorf("got %d requests, want 3: one was repeated", got)
	}
}

func TestClasses(t *testing.T) {
	plainly, _ := plain(t, answer("ok"))
	closing, _ := plain(t, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	babbling, _ := plain(t, func(w http.ResponseWriter, _ *http.Request) {
		conn, _, _ := http.NewResponseController(w).Hijack()
		_, _ = io.WriteString(conn, "hello\r\n\r\n")
		_ = conn.Close()
	})
	untrusted := serve(t, answer("ok"))
	old := httptest.NewUnstartedServer(answer("ok"))
	old.TLS = &tls.Config{MaxVersion: tls.VersionTLS11, MinVersion: tls.VersionTLS10}
	old.Config.ErrorLog = log.New(io.Discard, "", 0)
	old.StartTLS()
	t.Cleanup(old.Close)
	const named = "https://hooks.example/in"
	for _, c := range []struct {
		claim, url string
		client     *Client
		want       string
	}{
		{"a name that nobody has", named, offline(&net.DNSError{Err: "no such host", IsNotFound: true}), "dns"},
		{"a name server that fails", named, offline(&net.DNSError{Err: "server misbehaving"}), "dns"},
		{"a name server that is slow", named, offline(&net.DNSError{Err: "timeout", IsTimeout: true}), "dns"},
		{"a refused connection", named, offline(os.NewSyscallError("connect", syscall.ECONNREFUSED)), "connect"},
		{"an address without a way", named, offline(os.NewSyscallError("connect", syscall.EHOSTUNREACH)), "connect"},
		{"a dial without an end", named, offline(os.ErrDeadlineExceeded), "connect"},
		{"HTTP where TLS is wanted", strings.Replace(plainly, "http:", "https:", 1), sender(t, inside), "tls"},
		{"a certificate of nobody's", untrusted.URL, sender(t, inside), "tls"},
		{"a TLS of long ago", old.URL, sender(t, inside), "tls"},
		{"a connection that is closed", closing, sender(t, inside), "closed"},
		{"no HTTP", babbling, sender(t, inside), "closed"},
		{"a private address", plainly, sender(t, Policy{}), "blocked"},
		{"another scheme", "ftp://hooks.example/", sender(t, inside), "blocked"},
	} {
		_, _, _, err := c.client.Exchange(t.Context(), post(t, c.url, "body"), 10)
		if got := classOf(err); got != c.want {
			t.Errorf("%s: got %q (%v), want %q", c.claim, got, err, c.want)
		}
	}
}

func classOf(err error) string {
	var of interface{ Class() string }
	if errors.As(err, &of) {
		return of.Class()
	}
	return ""
}

func TestClassOfATimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, took, err := sendTo(t, func(_ http.ResponseWriter, r *http.Request) { hang(r) }, 20*time.Second)
		if classOf(err) != "timeout" || took != 20*time.Second {
			t.Errorf("got %q after %s, want a timeout after 20s", classOf(err), took)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		client := newClient(Policy{}, newPipes().dial)
		began := time.Now()
		_, _, err := client.Send(t.Context(), post(t, "https://example.com/", ""))
		if took := time.Since(began); classOf(err) != "tls" || took != connectTimeout {
			t.Errorf("hanging handshake: got %q after %s (%v), want tls after %s", classOf(err), took, err, connectTimeout)
		}
	})
}

// If a name first resolves to an allowed address and then to a forbidden one (DNS rebinding),
// the second request is refused.
func TestDNSRebindingIsRefused(t *testing.T) {
	var asked atomic.Int64
	address, _ := plain(t, func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		w.Header().Set("Connection", "close")
	})
	_, port, _ := net.SplitHostPort(strings.TrimPrefix(address, "http://"))
	for claim, second := range map[string]string{"loopback": "127.0.0.2", "private": "10.0.0.1", "metadata service": "169.254.169.254", "any": "0.0.0.0"} {
		t.Run(claim, func(t *testing.T) {
			asked.Store(0)
			allowed := netip.MustParseAddr("127.0.0.1") // as if it were public
			p := Policy{AllowedCIDRs: []netip.Prefix{netip.PrefixFrom(allowed, 32)}, Resolver: egresstest.Resolver(t, allowed.String(), second)}
			client := New(p)
			target := "http://rebind.example:" + port
			if status, _, err := client.Send(t.Context(), post(t, target, "body")); status != 200 || err != nil {
				t.Fatalf("first request: got %d, %v", status, err)
			}
			_, _, err := client.Send(t.Context(), post(t, target, "body"))
			if !errors.Is(err, ErrRefused) || asked.Load() != 1 {
				t.Errorf("second request: got %v and %d answered requests, want it refused", err, asked.Load())
			}
		})
	}
}

// Allow decides by the request's context and the address, and replaces the other rules.
func TestAllowDecidesPerRequest(t *testing.T) {
	type key struct{}
	address, _ := plain(t, func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Connection", "close") })
	c := New(Policy{AllowPrivate: true, Allow: func(ctx context.Context, a netip.Addr) bool { return ctx.Value(key{}) == a.String() }})
	for value, isAllowed := range map[string]bool{"127.0.0.1": true, "10.0.0.1": false} {
		_, _, err := c.Send(context.WithValue(t.Context(), key{}, value), post(t, address, "body"))
		if (err == nil) != isAllowed || errors.Is(err, ErrRefused) == isAllowed {
			t.Errorf("%s is allowed: got %v, want success %t", value, err, isAllowed)
		}
	}
}

// The addresses of a name are checked, unless a proxy resolves the name.
func TestAddressesOfANameAreChecked(t *testing.T) {
	system := net.DefaultResolver
	defer func() { net.DefaultResolver = system }()
	through, hook := &url.URL{Scheme: "http", Host: "proxy.example:3128"}, &url.URL{Scheme: "https", Host: "hooks.example"}
	for _, c := range []struct {
		claim, address string
		policy         Policy
		refused        bool
	}{
		{"a private one", "10.0.0.1", Policy{}, true},
		{"a private one, if those are allowed", "10.0.0.1", inside, false},
		{"a public one", "198.41.0.4", Policy{}, false},
		{"a private one, which may be another to the proxy", "10.0.0.1", Policy{Proxy: through}, false},
	} {
		net.DefaultResolver = egresstest.Resolver(t, c.address)
		if err := New(c.policy).LookUpAndCheckHost(t.Context(), hook); errors.Is(err, ErrRefused) != c.refused {
			t.Errorf("%s: got %v, want refused %t", c.claim, err, c.refused)
		}
	}
}

// proxyTo starts a proxy that connects every tunnel to the address end.
func proxyTo(t *testing.T, end string) (address *url.URL, asked *atomic.Pointer[string]) {
	t.Helper()
	asked = &atomic.Pointer[string]{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Store(new(r.Method + " " + r.RequestURI + " " + r.Header.Get("Proxy-Authorization")))
		if end == "" {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		if r.Method != http.MethodConnect {
			return
		}
		there, err := net.Dial("tcp", end)
		if err != nil {
			t.Error(err)
			return
		}
		here, _, _ := http.NewResponseController(w).Hijack()
		_, _ = io.WriteString(here, "HTTP/1.1 200 OK\r\n\r\n")
		go func() { _, _ = io.Copy(there, here); _ = there.Close() }()
		_, _ = io.Copy(here, there)
		_ = here.Close()
	}))
	t.Cleanup(s.Close)
	address, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	return address, asked
}

func TestProxy(t *testing.T) {
	server := serveVersion(t, answer("ok"), 1)
	through, asked := proxyTo(t, server.Listener.Addr().String())
	through.User = url.UserPassword("us", "hush")
	client := server.client(t, Policy{Proxy: through})
	target := "https://example.com:8443/hook" // the name in the certificate of httptest
	if status, _, err := client.Send(t.Context(), post(t, target, "body")); status != 200 || err != nil {
		t.Errorf("https: got %d, %v", status, err)
	}
	if got := *asked.Load(); got != "CONNECT example.com:8443 Basic dXM6aHVzaA==" {
		t.Errorf("the proxy got the request %q", got)
	}
	if status, _, err := client.Send(t.Context(), post(t, "http://example.com/hook", "body")); status != 200 || err != nil {
		t.Errorf("http: got %d, %v", status, err)
	}
	if got := *asked.Load(); got != "POST http://example.com/hook Basic dXM6aHVzaA==" {
		t.Errorf("the proxy got the request %q", got)
	}
	if _, err := client.Get(t.Context(), target, 10); err != nil {
		t.Errorf("Get: %v", err)
	}
	asked.Store(nil)
	for _, host := range []string{"127.0.0.1", "localhost", "LOCALHOST.", "a.localhost", "10.0.0.1", "[::1]", "169.254.169.254", "2130706433", "0x7f.1", "127.1", "0177.0.0.01", "127.0.0.1."} {
		_, _, err := client.Send(t.Context(), post(t, "https://"+host+"/", "body"))
		if _, got := client.Get(t.Context(), "https://"+host+"/", 10); !errors.Is(err, ErrRefused) || !errors.Is(got, ErrRefused) || asked.Load() != nil {
			t.Errorf("%s: got %v and %v, want it refused without a request to the proxy", host, err, got)
		}
	}
}

func TestProxyFailures(t *testing.T) {
	refusing, _ := proxyTo(t, "")
	_, _, err := sender(t, Policy{Proxy: refusing}).Send(t.Context(), post(t, "https://hooks.example/", "body"))
	if want := "the proxy that outbound.proxy_url names refused a connection to hooks.example"; err == nil || err.Error() != want || classOf(err) != "connect" {
		t.Errorf("got %v (%s), want %s", err, classOf(err), want)
	}
	gone, _ := url.Parse("http://127.0.0.1:1")
	_, _, err = sender(t, Policy{Proxy: gone}).Send(t.Context(), post(t, "http://hooks.example/", "body"))
	if want := "the proxy that outbound.proxy_url names could not be reached for a connection to hooks.example"; err == nil || err.Error() != want || classOf(err) != "connect" {
		t.Errorf("got %v (%s), want %s", err, classOf(err), want)
	}
}

// The number of idle connections is limited for all hosts together, and idle connections are
// closed after a while.
func TestIdleConnectionsAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := newPipes()
		var open, most atomic.Int64
		s := httptest.NewUnstartedServer(answer("ok"))
		_ = s.Listener.Close()
		s.Listener = network
		s.Config.ConnState = countOpen(&open)
		s.Start()
		defer s.Close()
		client := newClient(Policy{}, network.dial)
		for i := range maxIdle + 500 {
			if status, _, err := client.Send(t.Context(), post(t, fmt.Sprintf("http://h%d.example/", i), "body")); status != 200 || err != nil {
				t.Fatalf("got %d, %v", status, err)
			}
			synctest.Wait()
			most.Store(max(most.Load(), open.Load()))
		}
		if got := most.Load(); got != maxIdle {
			t.Errorf("%d connections were open at the same time, want %d", got, maxIdle)
		}
		time.Sleep(idleTimeout + time.Second)
		synctest.Wait()
		if got := open.Load(); got != 0 {
			t.Errorf("%d connections are open later, want 0", got)
		}
	})
}
