package egress

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// plain starts a server without TLS. asked counts its requests.
func plain(t *testing.T, h http.HandlerFunc) (url string, asked *atomic.Int64) {
	t.Helper()
	asked = &atomic.Int64{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		h(w, r)
	}))
	t.Cleanup(s.Close)
	return s.URL, asked
}

func sender(t *testing.T, p Policy) *Client {
	t.Helper()
	c := New(p)
	return c
}

func post(t *testing.T, url, body string) *http.Request {
	t.Helper()
	r, err := http.NewRequest(http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestSend(t *testing.T) {
	type got struct{ method, body, agent, custom, encoding, protocol string }
	asked := make(chan got, 1)
	h := func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		asked <- got{r.Method, string(body), r.UserAgent(), r.Header.Get("X-Custom"), r.Header.Get("Accept-Encoding"), r.Proto}
		w.Header().Set("Retry-After", "7")
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = io.WriteString(w, strings.Repeat("x", 1000))
	}
	over, tls := httptest.NewServer(http.HandlerFunc(h)), serve(t, h)
	t.Cleanup(over.Close)
	for _, c := range []struct {
		claim, url, protocol string
		client               *Client
	}{{"http", over.URL, "HTTP/1.1", sender(t, inside)}, {"https", tls.URL, "HTTP/2.0", tls.client(t, inside)}} {
		t.Run(c.claim, func(t *testing.T) {
			for _, agent := range []string{"", "mine/2"} {
				r, err := http.NewRequest(http.MethodPatch, c.url+"/hook", strings.NewReader(`{"a":1}`))
				if err != nil {
					t.Fatal(err)
				}
				r.Header.Set("X-Custom", "b")
				want := got{"PATCH", `{"a":1}`, "eventhook", "b", "", c.protocol}
				if agent != "" {
					r.Header.Set("User-Agent", agent)
					want.agent = agent
				}
				status, header, err := c.client.Send(t.Context(), r)
				if err != nil || status != 503 || header.Get("Retry-After") != "7" {
					t.Errorf("got %d, %v, %v; want 503 and the header Retry-After", status, header, err)
				}
				if got := <-asked; got != want {
					t.Errorf("got the request %+v, want %+v", got, want)
				}
				if r.UserAgent() != agent {
					t.Errorf("Send changed the request: got the user agent %q, want %q", r.UserAgent(), agent)
				}
			}
		})
	}
	if got := tls.connections.Load(); got != 1 {
		t.Errorf("connections: got %d, want 1 that is reused", got)
	}
}

func TestSendFollowsThePolicy(t *testing.T) {
	url, asked := plain(t, answer("ok"))
	loopback := []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	for _, c := range []struct {
		claim   string
		policy  Policy
		allowed bool
	}{
		{"refused by default", Policy{}, false},
		{"refused if others are allowed", Policy{AllowedCIDRs: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}, false},
		{"allowed with all private ones", inside, true},
		{"allowed by name", Policy{AllowedCIDRs: loopback}, true},
	} {
		t.Run(c.claim, func(t *testing.T) {
			before := asked.Load()
			status, _, err := sender(t, c.policy).Send(t.Context(), post(t, url, ""))
			if got := err == nil && status == 200; got != c.allowed || (asked.Load() > before) != c.allowed {
				t.Errorf("got %d, %v, received %t; want it allowed: %t", status, err, asked.Load() > before, c.allowed)
			}
			if want := fmt.Sprintf(notPublic, strings.TrimPrefix(url, "http://")); err != nil && (!errors.Is(err, ErrRefused) || err.Error() != want) {
				t.Errorf("got %v, want %s", err, want)
			}
		})
	}
}

func TestSendFollowsNoRedirect(t *testing.T) {
	elsewhere, asked := plain(t, answer("secret"))
	for _, to := range []string{elsewhere, "http://169.254.169.254/latest/meta-data/"} {
		url, _ := plain(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, to, http.StatusTemporaryRedirect) })
		status, _, err := sender(t, inside).Send(t.Context(), post(t, url, "body"))
		if err != nil || status != http.StatusTemporaryRedirect {
			t.Errorf("to %s: got %d, %v; want the redirect itself", to, status, err)
		}
	}
	if got := asked.Load(); got != 0 {
		t.Errorf("the target of the redirect got %d requests, want 0", got)
	}
}

func TestSendRejectsURLs(t *testing.T) {
	url, asked := plain(t, answer("ok"))
	host := strings.TrimPrefix(url, "http://")
	for _, u := range []string{"//" + host, "ftp://" + host, "file:///etc/passwd", "http:///hook", "http://user:hunter2@" + host, url + "/" + strings.Repeat("a", maxURL)} {
		_, _, err := sender(t, inside).Send(t.Context(), post(t, u, ""))
		if err == nil || err.Error() != errSendURL.Error() {
			t.Errorf("%.60q: got %v, want %v", u, err, errSendURL)
		}
	}
	if got := asked.Load(); got != 0 {
		t.Errorf("got %d requests, want 0", got)
	}
}

func TestErrorsDoNotContainTheResponse(t *testing.T) {
	const secret = "what the server says"
	for claim, h := range map[string]http.HandlerFunc{
		"no HTTP": func(w http.ResponseWriter, _ *http.Request) {
			conn, _, _ := http.NewResponseController(w).Hijack()
			_, _ = io.WriteString(conn, secret+"\r\n\r\n")
			_ = conn.Close()
		},
		"no answer": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"too large headers": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X", strings.Repeat(secret, maxHeaderBytes))
		},
	} {
		url, _ := plain(t, h)
		_, _, err := sender(t, inside).Send(t.Context(), post(t, url, ""))
		if err == nil || strings.Contains(err.Error(), secret) || !strings.Contains(err.Error(), strings.TrimPrefix(url, "http://")) {
			t.Errorf("%s: got %v, want an error with the host and without the response", claim, err)
		}
	}
}

// sendTo sends a request to a handler over an in-memory network. It must run in a synctest bubble.
func sendTo(t *testing.T, h http.HandlerFunc, limit time.Duration) (status int, took time.Duration, err error) {
	t.Helper()
	network := newPipes()
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.ReadAll(r.Body) // after that the server notices when the client closes the connection
		h(w, r)
	}))
	_ = s.Listener.Close()
	s.Listener = network
	s.Start()
	defer s.Close()
	client := newClient(Policy{}, network.dial)
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	began := time.Now()
	status, _, err = client.Send(ctx, post(t, "http://example.com/", "body"))
	return status, time.Since(began), err
}

func TestSendTimesOut(t *testing.T) {
	drip := func(w http.ResponseWriter, r *http.Request, pause time.Duration) {
		for r.Context().Err() == nil {
			if _, err := io.WriteString(w, "0123456789"); err != nil {
				break
			}
			_ = http.NewResponseController(w).Flush()
			time.Sleep(pause)
		}
		panic(http.ErrAbortHandler)
	}
	for _, c := range []struct {
		claim  string
		h      http.HandlerFunc
		status int
		took   time.Duration
	}{
		{"no answer ends with ctx", func(_ http.ResponseWriter, r *http.Request) { hang(r) }, 0, 20 * time.Second},
		{"headers that drip end with ctx", func(w http.ResponseWriter, _ *http.Request) {
			conn, _, _ := http.NewResponseController(w).Hijack()
			defer func() { _ = conn.Close() }()
			_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\n")
			for {
				if _, err := io.WriteString(conn, "X-A: b\r\n"); err != nil {
					return
				}
				time.Sleep(time.Second)
			}
		}, 0, 20 * time.Second},
		{"a body that drips was answered", func(w http.ResponseWriter, r *http.Request) { drip(w, r, 100*time.Millisecond) }, 200, bodyTime},
		{"a body without an end was answered", func(w http.ResponseWriter, r *http.Request) { drip(w, r, 0) }, 200, 0},
	} {
		t.Run(c.claim, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				status, took, err := sendTo(t, c.h, 20*time.Second)
				time.Sleep(2 * time.Second) // the handler notices the end
				if status != c.status || took != c.took {
					t.Errorf("got %d after %s (%v), want %d after %s", status, took, err, c.status, c.took)
				}
				if c.status == 0 && (!errors.Is(err, context.DeadlineExceeded) || err.Error() != "no complete answer from example.com within 20 s") {
					t.Errorf("got %v, want no complete answer within 20 s", err)
				}
			})
		})
	}
}

// After a switch of protocols the connection has no HTTP body, and reading it would not end.
func TestSendDoesNotSwitchProtocols(t *testing.T) {
	url, _ := plain(t, func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		t.Cleanup(func() { _ = conn.Close() })
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n")
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	status, _, err := sender(t, inside).Send(ctx, post(t, url, ""))
	if status != http.StatusSwitchingProtocols || err != nil || ctx.Err() != nil {
		t.Errorf("got %d, %v, ctx %v; want an immediate 101", status, err, ctx.Err())
	}
}

// offline returns a client for which every dial fails with err.
func offline(err error) *Client {
	return newClient(Policy{}, func(context.Context, string, string) (net.Conn, error) {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Addr: &net.TCPAddr{IP: net.IPv4(10, 1, 2, 3), Port: 443}, Err: err}
	})
}

func TestSendErrorText(t *testing.T) {
	hangUp := func(w http.ResponseWriter, _ *http.Request) {
		conn, _, _ := http.NewResponseController(w).Hijack()
		_ = conn.Close()
	}
	reset := func(w http.ResponseWriter, _ *http.Request) {
		conn, _, _ := http.NewResponseController(w).Hijack()
		_ = conn.(*net.TCPConn).SetLinger(0)
		_ = conn.Close()
	}
	plainly, _ := plain(t, answer("ok"))
	closing, _ := plain(t, hangUp)
	resetting, _ := plain(t, reset)
	untrusted := serve(t, answer("ok"))
	const named = "https://hooks.example/in"
	for _, c := range []struct {
		claim, url string
		client     *Client
		want       string
	}{
		{"a name that nobody has", named, offline(&net.DNSError{Err: "no such host", Name: "hooks.example", Server: "10.0.0.2:53", IsNotFound: true}), "the name of hooks.example is not known"},
		{"a name server that fails", named, offline(&net.DNSError{Err: "server misbehaving", Name: "hooks.example", Server: "10.0.0.2:53"}), "the name of hooks.example could not be looked up"},
		{"a refused connection", "https://hooks.example:8443/in", offline(os.NewSyscallError("connect", syscall.ECONNREFUSED)), "hooks.example:8443 refused the connection"},
		{"an address without a way", named, offline(os.NewSyscallError("connect", syscall.EHOSTUNREACH)), "the connection to hooks.example failed"},
		{"a dial without an end", named, offline(os.ErrDeadlineExceeded), "no connection to hooks.example in time"},
		{"HTTP where TLS is wanted", strings.Replace(plainly, "http:", "https:", 1), sender(t, inside), "HOST does not speak TLS"},
		{"a certificate of nobody's", untrusted.URL, sender(t, inside), "the certificate of HOST is not trusted"},
		{"a connection that is closed", closing, sender(t, inside), "HOST closed the connection without a complete answer"},
		{"a connection that is reset", resetting, sender(t, inside), "HOST closed the connection without a complete answer"},
	} {
		t.Run(c.claim, func(t *testing.T) {
			r := post(t, c.url, "body")
			_, _, err := c.client.Send(t.Context(), r)
			if want := strings.Replace(c.want, "HOST", r.URL.Host, 1); err == nil || err.Error() != want {
				t.Errorf("got %v, want %s", err, want)
			}
		})
	}
}

func TestCheckHostFollowsThePolicy(t *testing.T) {
	for _, c := range []struct {
		claim, url string
		policy     Policy
		refused    string // part of the error
	}{
		{"loopback", "http://127.0.0.1:1/", Policy{}, notPublic},
		{"loopback by name", "http://LocalHost:8080/", Policy{}, notPublic},
		{"loopback, IPv6", "https://[::1]/", Policy{}, notPublic},
		{"loopback, mapped", "https://[::ffff:127.0.0.1]/", Policy{}, notPublic},
		{"loopback by a longer name", "http://a.localhost./", Policy{}, notPublic},
		{"loopback as a number", "http://2130706433/", Policy{}, noAddress},
		{"loopback in two numbers", "http://127.0x1/", Policy{}, noAddress},
		{"loopback in full-width digits and dots", "http://１２７。0。0。1/", Policy{}, notPublic},
		{"a cloud's credentials behind circled digits", "http://①⑥⑨.254.169.254/", Policy{}, notPublic},
		{"loopback by a full-width name", "http://ｌｏｃａｌｈｏｓｔ/", Policy{}, notPublic},
		{"internationalized name", "http://bücher.example/", Policy{}, ""},
		{"one number, where loopback is allowed", "http://127.1/", Policy{AllowedCIDRs: prefixes("127.0.0.0/8")}, noAddress},
		{"a number that is too large", "http://99999999999999999999/", Policy{}, noAddress},
		{"a name that begins with a digit", "http://1server/", Policy{}, ""},
		{"a name with a number in it", "http://10.internal/", Policy{}, ""},
		{"private address", "http://10.1.2.3/", Policy{}, notPublic},
		{"a cloud's credentials", "http://169.254.169.254/latest", Policy{}, notPublic},
		{"a cloud's credentials, where private addresses are allowed", "http://169.254.169.254/latest", inside, notPublic},
		{"address with a zone", "http://[fe80::1%25eth0]/", Policy{}, notPublic},
		{"loopback, where private addresses are allowed", "http://127.0.0.1/", inside, ""},
		{"localhost, where one of its addresses is allowed", "http://localhost/", Policy{AllowedCIDRs: prefixes("::1/128")}, ""},
		{"allowed address", "http://10.1.2.3/", Policy{AllowedCIDRs: prefixes("10.0.0.0/8")}, ""},
		{"public address", "https://8.8.8.8/", Policy{}, ""},
		{"name, which is not resolved", "https://internal.example/", Policy{}, ""},
	} {
		u := post(t, c.url, "").URL
		err := New(c.policy).CheckHost(u)
		if errors.Is(err, ErrRefused) != (c.refused != "") || (err != nil) != (c.refused != "") {
			t.Errorf("%s: got %v, want it refused: %t", c.claim, err, c.refused != "")
		}
		if err != nil && err.Error() != fmt.Sprintf(c.refused, u.Host) {
			t.Errorf("%s: got %v, want an error with the host and %s", c.claim, err, c.refused)
		}
	}
}
