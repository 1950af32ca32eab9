package egress

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// listen starts a server that calls serve for each connection.
func listen(t testing.TB, serve func(conn net.Conn, in *bufio.Reader)) (url string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	serveAll(t, l, func(conn net.Conn) { serve(conn, bufio.NewReader(conn)) })
	return "http://" + l.Addr().String()
}

// serveAll serves each connection in its own goroutine until the test ends.
func serveAll(t testing.TB, l net.Listener, serve func(conn net.Conn)) {
	t.Helper()
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			stop := context.AfterFunc(t.Context(), func() { _ = conn.Close() })
			serving.Go(func() {
				defer stop()
				defer func() { _ = conn.Close() }()
				serve(conn)
			})
		}
	})
	t.Cleanup(serving.Wait)
	t.Cleanup(func() { _ = l.Close() })
}

// countOpen returns a ConnState hook that counts the open connections of a server.
func countOpen(open *atomic.Int64) func(net.Conn, http.ConnState) {
	return func(_ net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			open.Add(1)
		case http.StateClosed:
			open.Add(-1)
		default:
		}
	}
}

// readRequest reads a whole request. It returns false if there is none.
func readRequest(in *bufio.Reader) bool {
	r, err := http.ReadRequest(in)
	if err != nil {
		return false
	}
	_, err = io.Copy(io.Discard, r.Body)
	return err == nil
}

const thanks = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

func TestMalformedResponses(t *testing.T) {
	for _, c := range []struct {
		claim, says string
		status      int
		class       string
	}{
		{"hints before the answer", "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + thanks, 200, ""},
		{"hints without an end", strings.Repeat("HTTP/1.1 100 Continue\r\n\r\n", 10_000), 0, "closed"},
		{"headers without an end", "HTTP/1.1 200 OK\r\n" + strings.Repeat("X-A: "+strings.Repeat("b", 1000)+"\r\n", 100), 0, "closed"},
		{"HTTP/1.0, which says no length", "HTTP/1.0 204 No Content\r\n\r\n", 204, ""},
		{"no HTTP", "SSH-2.0-OpenSSH_9.6\r\n", 0, "closed"},
		{"a header that is none", "HTTP/1.1 200 OK\r\n: x\r\n\r\n", 0, "closed"},
		{"a status that is none", "HTTP/1.1 042 No\r\n\r\n" + thanks, 0, "closed"},
		{"a length that is none", "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", 0, "closed"},
	} {
		t.Run(c.claim, func(t *testing.T) {
			url := listen(t, func(conn net.Conn, in *bufio.Reader) {
				if readRequest(in) {
					_, _ = io.WriteString(conn, c.says)
					_, _ = io.Copy(io.Discard, in) // until the client closes the connection
				}
			})
			status, _, _, err := sender(t, inside).Exchange(t.Context(), post(t, url, "body"), 10)
			if status != c.status || classOf(err) != c.class {
				t.Errorf("got %d, %v; want %d and the class %q", status, err, c.status, c.class)
			}
		})
	}
}

// If a receiver sends two responses to one request, the connection is closed.
func TestConnectionWithASecondResponseIsNotReused(t *testing.T) {
	closed := make(chan bool)
	url := listen(t, func(conn net.Conn, in *bufio.Reader) {
		if readRequest(in) {
			_, _ = io.WriteString(conn, thanks+"HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n")
			closed <- !readRequest(in)
		}
	})
	client := sender(t, inside)
	for range 3 {
		if status, _, _, err := client.Exchange(t.Context(), post(t, url, "body"), 10); status != 200 || err != nil {
			t.Errorf("got %d, %v; want 200", status, err)
		}
		if !<-closed {
			t.Error("the connection was reused")
		}
	}
}

// The client may have read the second response from the network together with the first.
func TestConnectionWithASecondResponseInTLSIsNotReused(t *testing.T) {
	known := serveVersion(t, answer("ok"), 1)
	for claim, surplus := range map[string]func(*tls.Conn) error{
		"a second response": func(c *tls.Conn) error {
			_, err := io.WriteString(c, "HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n")
			return err
		},
		"the end": (*tls.Conn).CloseWrite,
	} {
		closed := make(chan bool)
		url := listen(t, func(conn net.Conn, _ *bufio.Reader) {
			wire := &heldBack{Conn: conn}
			secured := tls.Server(wire, &tls.Config{Certificates: known.TLS.Certificates})
			in := bufio.NewReader(secured)
			if !readRequest(in) {
				return
			}
			wire.isHeld = true
			_, err := io.WriteString(secured, thanks)
			err = errors.Join(err, surplus(secured), conn.SetWriteDeadline(time.Time{})) // CloseWrite sets a deadline
			if _, sent := conn.Write(wire.held.Bytes()); err != nil || sent != nil {
				t.Error(err, sent)
			}
			closed <- !readRequest(in)
		})
		client := known.client(t, inside)
		for range 2 {
			if status, _, _, err := client.Exchange(t.Context(), post(t, strings.Replace(url, "http:", "https:", 1), "body"), 10); status != 200 || err != nil {
				t.Errorf("%s: got %d, %v; want 200", claim, status, err)
			}
			if !<-closed {
				t.Errorf("%s: the connection was reused", claim)
			}
		}
	}
}

// heldBack is a connection that buffers writes while isHeld is set.
type heldBack struct {
	net.Conn
	isHeld bool
	held   bytes.Buffer
}

func (h *heldBack) Write(p []byte) (int, error) {
	if h.isHeld {
		return h.held.Write(p)
	}
	return h.Conn.Write(p)
}

func TestCancelledRequestIsNotSent(t *testing.T) {
	url, asked := plain(t, answer("ok"))
	client := sender(t, inside)
	if _, _, err := client.Send(t.Context(), post(t, url, "body")); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := client.Send(ctx, post(t, url, "body")); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want context.Canceled", err)
	}
	if got := asked.Load(); got != 1 {
		t.Errorf("got %d requests, want 1", got)
	}
}

// A connection is not reused after a response with "Connection: close".
func TestConnectionWithCloseIsNotReused(t *testing.T) {
	url := listen(t, func(conn net.Conn, in *bufio.Reader) {
		for says := "200 OK"; readRequest(in); says = "500 Internal Server Error" {
			_, _ = io.WriteString(conn, "HTTP/1.1 "+says+"\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
		}
	})
	client := sender(t, inside)
	for range 2 {
		if status, _, _, err := client.Exchange(t.Context(), post(t, url, "body"), 10); status != 200 || err != nil {
			t.Errorf("got %d, %v; want 200", status, err)
		}
	}
}

// A receiver may respond before it has read a large body, and read no more of it.
func TestEarlyResponse(t *testing.T) {
	url := listen(t, func(conn net.Conn, in *bufio.Reader) {
		if _, err := http.ReadRequest(in); err == nil {
			_, _ = io.WriteString(conn, "HTTP/1.1 413 Request Entity Too Large\r\nContent-Length: 0\r\n\r\n")
			<-t.Context().Done()
		}
	})
	status, _, _, err := sender(t, inside).Exchange(t.Context(), post(t, url, strings.Repeat("x", 64<<20)), 10)
	if status != http.StatusRequestEntityTooLarge || err != nil {
		t.Errorf("got %d, %v; want 413", status, err)
	}
}

// A request that is not idempotent is not repeated over another connection.
func TestOnlyIdempotentRequestsAreRepeated(t *testing.T) {
	var requests atomic.Int64
	url := listen(t, func(conn net.Conn, in *bufio.Reader) {
		for readRequest(in) {
			if requests.Add(1) == 2 {
				return
			}
			_, _ = io.WriteString(conn, thanks)
		}
	})
	client := sender(t, inside)
	for i, want := range []string{"", "closed"} {
		if _, _, _, err := client.Exchange(t.Context(), post(t, url, "body"), 10); classOf(err) != want {
			t.Errorf("request %d: got %v, want the class %q", i, err, want)
		}
	}
	if got := requests.Load(); got != 2 {
		t.Errorf("got %d requests, want 2", got)
	}
}

func TestRequestOnTheWire(t *testing.T) {
	got := make(chan string, 1)
	url := listen(t, func(conn net.Conn, in *bufio.Reader) {
		var raw bytes.Buffer
		for in = bufio.NewReader(io.TeeReader(in, &raw)); readRequest(in); raw.Reset() {
			got <- raw.String()
			_, _ = io.WriteString(conn, thanks)
		}
	})
	host := strings.TrimPrefix(url, "http://")
	named := post(t, url+"/a%2Fb/%C3%BC?q=1;2", "x")
	named.Host = "bücher.example:8080"
	named.Header = http.Header{
		"User-Agent": {"u"}, "X-B": {" b ", "c"}, "X-A": {"é"}, "X-None": nil, "Idempotency-Key": nil, "Content-Length": {"7"}, "Host": {"other"},
		"Transfer-Encoding": {"chunked"}, "transfer-encoding": {"chunked"}, "connection": {"x-a"}, "Upgrade": {"h2c"}, "Trailer": {"X-A"},
	}
	get := post(t, url, "")
	get.Method, get.Body, get.ContentLength = http.MethodGet, nil, 0
	spaced := post(t, url+"/a b?c d", "")
	nothing := post(t, url+"/", "")
	nothing.Body = nil
	client := sender(t, inside)
	for _, c := range []struct {
		request *http.Request
		want    string
	}{
		{spaced, "POST /a%20b?c%20d HTTP/1.1\r\nHost: HOST\r\nUser-Agent: eventhook\r\nContent-Length: 0\r\n\r\n"},
		{nothing, "POST / HTTP/1.1\r\nHost: HOST\r\nUser-Agent: eventhook\r\nContent-Length: 0\r\n\r\n"},
		{named, "POST /a%2Fb/%C3%BC?q=1;2 HTTP/1.1\r\nHost: xn--bcher-kva.example:8080\r\nUser-Agent: u\r\nContent-Length: 1\r\nX-A: é\r\nX-B: b\r\nX-B: c\r\n\r\nx"},
		{get, "GET / HTTP/1.1\r\nHost: HOST\r\nUser-Agent: eventhook\r\n\r\n"},
	} {
		if status, _, _, err := client.Exchange(t.Context(), c.request, 10); status != 200 || err != nil {
			t.Fatalf("%s: got %d, %v", c.want, status, err)
		}
		if diff := cmp.Diff(strings.ReplaceAll(c.want, "HOST", host), <-got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	if len(named.Header) != 12 || spaced.URL.RawQuery != "c d" {
		t.Errorf("the requests were changed: %v, %s", named.Header, spaced.URL)
	}
}

// Values with line breaks, which would end a header field early, are refused.
func TestInvalidRequestsAreNotSent(t *testing.T) {
	url, asked := plain(t, answer("ok"))
	for claim, change := range map[string]func(*http.Request){
		"a value with a line break":  func(r *http.Request) { r.Header.Set("X-A", "a\r\nX-B: c") },
		"a name with a line break":   func(r *http.Request) { r.Header["X-A: b\r\nX-B"] = []string{"c"} },
		"a method with a line break": func(r *http.Request) { r.Method = "POST / HTTP/1.1\r\nX-B: c\r\n\r\nGET" },
		"no method":                  func(r *http.Request) { r.Method = "" },
		"no name":                    func(r *http.Request) { r.Header[""] = []string{"c"} },
		"a host with a line break":   func(r *http.Request) { r.Host = "h.example\r\nX-B: c" },
		"a path with a line break":   func(r *http.Request) { r.URL.RawQuery = "a\r\nX-B: c" },
	} {
		r := post(t, url, "body")
		change(r)
		if status, _, _, err := sender(t, inside).Exchange(t.Context(), r, 10); classOf(err) != "blocked" {
			t.Errorf("%s: got %d, %v; want an error", claim, status, err)
		}
	}
	if got := asked.Load(); got != 0 {
		t.Errorf("%d requests were sent, want 0", got)
	}
}

// A body whose length differs from Content-Length is not sent.
func TestBodyWithAWrongLengthIsNotSent(t *testing.T) {
	url, asked := plain(t, answer("ok"))
	for _, length := range []int64{1, 100} {
		r := post(t, url, "body")
		r.ContentLength = length
		if status, _, _, err := sender(t, inside).Exchange(t.Context(), r, 10); err == nil {
			t.Errorf("%d bytes: got %d, want an error", length, status)
		}
	}
	if got := asked.Load(); got != 0 {
		t.Errorf("%d requests were sent, want 0", got)
	}
}

// Concurrent requests get their own responses and share connections.
func TestConcurrentExchanges(t *testing.T) {
	const atOnce, each = 20, 15
	for version := 1; version <= 2; version++ {
		s := serveVersion(t, func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			_, _ = w.Write(body)
		}, version)
		client := s.client(t, inside)
		var all sync.WaitGroup
		for i := range atOnce {
			all.Go(func() {
				for n := range each {
					body := bytes.Repeat(fmt.Appendf(nil, "%d/%d ", i, n), 1+n*300)
					status, _, got, err := client.Exchange(t.Context(), post(t, s.URL, string(body)), len(body)+1)
					if status != 200 || err != nil || !bytes.Equal(got, body) {
						t.Errorf("HTTP/%d, %d/%d: got %d with %d bytes, %v; want its own response of %d bytes", version, i, n, status, len(got), err, len(body))
					}
				}
			})
		}
		all.Wait()
		if got := s.connections.Load(); got >= atOnce*each {
			t.Errorf("HTTP/%d: got %d connections, want fewer than requests", version, got)
		}
	}
}

// The number of idle connections to a host is limited, and they are closed after a while.
func TestIdleConnectionsToAHostAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network, open := newPipes(), atomic.Int64{}
		s := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { time.Sleep(time.Second) }))
		_ = s.Listener.Close()
		s.Listener, s.Config.ConnState = network, countOpen(&open)
		s.Start()
		defer s.Close()
		client := newClient(Policy{}, network.dial)
		var all sync.WaitGroup
		for range maxIdlePerHost + 10 {
			all.Go(func() {
				if status, _, err := client.Send(t.Context(), post(t, "http://h.example/", "body")); status != 200 || err != nil {
					t.Errorf("got %d, %v", status, err)
				}
			})
		}
		all.Wait()
		synctest.Wait()
		if got := open.Load(); got != maxIdlePerHost {
			t.Errorf("%d connections are idle, want %d", got, maxIdlePerHost)
		}
		time.Sleep(idleTimeout + time.Second)
		synctest.Wait()
		if got := open.Load(); got != 0 {
			t.Errorf("%d connections are open later, want 0", got)
		}
	})
}
