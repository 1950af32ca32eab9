package egress

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// listen is a server that speaks as it likes: each connection is its own.
func listen(t *testing.T, serve func(conn net.Conn, in *bufio.Reader)) (url string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
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
				serve(conn, bufio.NewReader(conn))
			})
		}
	})
	t.Cleanup(serving.Wait)
	t.Cleanup(func() { _ = l.Close() })
	return "http://" + l.Addr().String()
}

// readRequest reads a request to its end, and reports whether there was one.
func readRequest(in *bufio.Reader) bool {
	r, err := http.ReadRequest(in)
	if err != nil {
		return false
	}
	_, err = io.Copy(io.Discard, r.Body)
	return err == nil
}

const thanks = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

func TestAnswersOfOddServers(t *testing.T) {
	for _, c := range []struct {
		claim, says string
		status      int
		class       string
	}{
		{"hints before the answer", "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + thanks, 200, ""},
		{"hints without an end", strings.Repeat("HTTP/1.1 100 Continue\r\n\r\n", 100), 0, "closed"},
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
				}
			})
			status, _, _, err := sender(t, inside).Exchange(t.Context(), post(t, url, "body"), 10)
			if status != c.status || classOf(err) != c.class {
				t.Errorf("got %d, %v; want %d and the class %q", status, err, c.status, c.class)
			}
		})
	}
}

// What a server says unasked is nobody's answer.
func TestWhatWasNotAskedForIsNoAnswer(t *testing.T) {
	var connections atomic.Int64
	url := listen(t, func(conn net.Conn, in *bufio.Reader) {
		connections.Add(1)
		for readRequest(in) {
			_, _ = io.WriteString(conn, thanks+"HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n")
		}
	})
	client := sender(t, inside)
	for range 3 {
		if status, _, _, err := client.Exchange(t.Context(), post(t, url, "body"), 10); status != 200 || err != nil {
			t.Errorf("got %d, %v; want 200", status, err)
		}
	}
	if got := connections.Load(); got != 3 {
		t.Errorf("got %d connections, want one for each request", got)
	}
}

// TLS reads ahead, and what it has read is not to be seen on the wire.
func TestWhatTLSHasReadAheadIsNoAnswer(t *testing.T) {
	known := serveVersion(t, answer("ok"), 1)
	for claim, surplus := range map[string]func(*tls.Conn) error{
		"an answer that was not asked for": func(c *tls.Conn) error {
			_, err := io.WriteString(c, "HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n")
			return err
		},
		"the end": (*tls.Conn).CloseWrite,
	} {
		url := listen(t, func(conn net.Conn, _ *bufio.Reader) {
			wire := &heldBack{Conn: conn}
			secured := tls.Server(wire, &tls.Config{Certificates: known.TLS.Certificates})
			if !readRequest(bufio.NewReader(secured)) {
				return
			}
			wire.isHeld = true
			_, err := io.WriteString(secured, thanks)
			err = errors.Join(err, surplus(secured), conn.SetWriteDeadline(time.Time{})) // CloseWrite sets one
			if _, sent := conn.Write(wire.held.Bytes()); err != nil || sent != nil {
				t.Error(err, sent)
			}
			_, _ = io.Copy(io.Discard, conn)
		})
		client := known.client(t, inside)
		for range 2 {
			if status, _, _, err := client.Exchange(t.Context(), post(t, strings.Replace(url, "http:", "https:", 1), "body"), 10); status != 200 || err != nil {
				t.Errorf("%s: got %d, %v; want 200", claim, status, err)
			}
		}
	}
}

// heldBack is a connection that keeps what is written while isHeld.
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

func TestABodyThatBreaksOffEndsItsConnection(t *testing.T) {
	url := listen(t, func(conn net.Conn, in *bufio.Reader) {
		if readRequest(in) {
			_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")
		}
	})
	client := sender(t, inside)
	status, _, beginning, err := client.Exchange(t.Context(), post(t, url, "body"), 10)
	if status != 200 || string(beginning) != "half" || err != nil {
		t.Errorf("got %d, %q, %v; want the half that came", status, beginning, err)
	}
	if got := client.sender.(*direct).pool.oldest.Len(); got != 0 {
		t.Errorf("%d connections are kept, want none", got)
	}
}

func TestNothingIsSentForNobody(t *testing.T) {
	url, asked := plain(t, answer("ok"))
	client := sender(t, inside)
	if _, _, err := client.Send(t.Context(), post(t, url, "body")); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := client.Send(ctx, post(t, url, "body")); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want it cancelled", err)
	}
	if got := client.sender.(*direct).pool.oldest.Len(); got != 1 || asked.Load() != 1 {
		t.Errorf("asked %d times, and %d connections are kept; want the first's", asked.Load(), got)
	}
}

func TestOnlyAQuietConnectionIsUsedAgain(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	for _, c := range []struct {
		claim string
		then  func(net.Conn) error
		want  bool
	}{
		{"nothing has come", nil, true},
		{"something has come", func(far net.Conn) error { _, err := io.WriteString(far, "HTTP/1.1 408"); return err }, false},
		{"it is closed", net.Conn.Close, false},
	} {
		near, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		far, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		if c.then != nil {
			if err := c.then(far); err != nil {
				t.Fatal(err)
			}
			untilReadable(t, near)
		}
		p := newPool()
		p.keep(&conn{Conn: near, wire: near, to: "a"})
		if got := p.take("a") != nil; got != c.want {
			t.Errorf("%s: got %t, want %t", c.claim, got, c.want)
		}
		if p.take("a") != nil {
			t.Errorf("%s: it is there still", c.claim)
		}
		_, _ = near.Close(), far.Close()
	}
}

// A server that says that it closes a connection is taken at its word.
func TestAConnectionThatEndsIsNotUsedAgain(t *testing.T) {
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

func TestFewConnectionsAreKeptAndNoneForLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, ends := newPool(), []net.Conn{}
		keep := func() {
			near, far := net.Pipe()
			ends = append(ends, far)
			p.keep(&conn{Conn: near, wire: near, to: "a"})
		}
		open := func() (n int) {
			for _, far := range ends {
				_ = far.SetReadDeadline(time.Now().Add(time.Nanosecond))
				if _, err := far.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
					n++
				}
			}
			return n
		}
		for range idleSendsPerHost + 10 {
			keep()
		}
		if got := open(); got != idleSendsPerHost {
			t.Errorf("%d are open, want %d", got, idleSendsPerHost)
		}
		time.Sleep(idleTimeout - time.Second)
		again := p.take("a")
		time.Sleep(2 * time.Second)
		if got := open(); got != 1 || p.take("a") != nil {
			t.Errorf("%d are open later, want the one in use", got)
		}
		p.keep(again)
		time.Sleep(idleTimeout + time.Second)
		if got := open(); got != 0 || p.take("a") != nil || p.oldest.Len() != 0 || len(p.idle) != 0 {
			t.Errorf("%d are open in the end, want none", got)
		}
	})
}

// Whom a connection leads to is told that it ends, as TLS has it.
func TestAnIdleConnectionOfTLSEndsWithAGoodbye(t *testing.T) {
	known := serveVersion(t, answer("ok"), 1)
	trust := &tls.Config{ServerName: "example.com", RootCAs: x509.NewCertPool()}
	trust.RootCAs.AddCert(known.Certificate())
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		said := make(chan string, 1)
		go func() {
			err := tls.Server(far, &tls.Config{Certificates: known.TLS.Certificates, SessionTicketsDisabled: true}).Handshake()
			raw, last := io.ReadAll(far)
			said <- fmt.Sprint(len(raw) > 0, err, last)
		}()
		secured := tls.Client(near, trust)
		if err := secured.Handshake(); err != nil {
			t.Fatal(err)
		}
		p := newPool()
		p.keep(&conn{Conn: secured, wire: near, to: "a"})
		if got := <-said; got != "true <nil> <nil>" {
			t.Errorf("got %s, want something to be said last", got)
		}
	})
}

// untilReadable waits, and reads nothing.
func untilReadable(t *testing.T, c net.Conn) {
	t.Helper()
	raw, err := c.(syscall.Conn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	if err := raw.Read(func(fd uintptr) bool {
		_, _, err := syscall.Recvfrom(int(fd), make([]byte, 1), syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		return err != syscall.EAGAIN
	}); err != nil {
		t.Fatal(err)
	}
}

// Who answers before he has read a large body, and reads no more of it, is heard.
func TestAnEarlyAnswerIsHeard(t *testing.T) {
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

// What must not be made twice is not sent again over another connection.
func TestOnlyWhatMayBeRepeatedIs(t *testing.T) {
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

func TestARequestIsWrittenAsItIs(t *testing.T) {
	unknown := post(t, "http://bücher.example:8080/a%2Fb/%C3%BC?q=1;2", "")
	unknown.Body, unknown.ContentLength = io.NopCloser(io.MultiReader(strings.NewReader("two "), strings.NewReader("parts"))), -1
	named := post(t, "http://10.0.0.1/", "x")
	named.Host = "hooks.example"
	named.Header = http.Header{"X-B": {" b ", "c"}, "X-A": {"é"}, "X-None": nil, "Content-Length": {"7"}, "Host": {"other"}, "Transfer-Encoding": {"chunked"}, "transfer-encoding": {"chunked"}, "Connection": {"close"}}
	get := post(t, "http://h.example", "")
	get.Method, get.Body, get.ContentLength = http.MethodGet, nil, 0
	spaced := post(t, "http://h.example/a b?c d", "")
	nothing := post(t, "http://h.example/", "")
	nothing.Body, nothing.ContentLength = nil, -1
	for _, c := range []struct {
		r    *http.Request
		want string
	}{
		{spaced, "POST /a%20b?c%20d HTTP/1.1\r\nHost: h.example\r\nContent-Length: 0\r\n\r\n"},
		{nothing, "POST / HTTP/1.1\r\nHost: h.example\r\nContent-Length: 0\r\n\r\n"},
		{unknown, "POST /a%2Fb/%C3%BC?q=1;2 HTTP/1.1\r\nHost: xn--bcher-kva.example:8080\r\nContent-Length: 9\r\n\r\ntwo parts"},
		{named, "POST / HTTP/1.1\r\nHost: hooks.example\r\nX-A: é\r\nX-B: b\r\nX-B: c\r\nContent-Length: 1\r\n\r\nx"},
		{get, "GET / HTTP/1.1\r\nHost: h.example\r\n\r\n"},
		{post(t, "http://h.example/", ""), "POST / HTTP/1.1\r\nHost: h.example\r\nContent-Length: 0\r\n\r\n"},
	} {
		m, err := compose(c.r)
		if err != nil {
			t.Errorf("%q: %v", c.want, err)
			continue
		}
		if diff := cmp.Diff(c.want, m.String()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		m.free()
	}
}

func TestALargeBodyIsHeldOnce(t *testing.T) {
	const size = 1 << 20
	m, err := compose(post(t, "http://h.example/", strings.Repeat("x", size)))
	if err != nil {
		t.Fatal(err)
	}
	if got := m.Cap(); got > size*5/4 {
		t.Errorf("%d bytes are held for %d", got, size)
	}
}

// Nothing that a request says ends its headers early.
func TestWhatCannotBeSentIsNot(t *testing.T) {
	url, asked := plain(t, answer("ok"))
	for claim, change := range map[string]func(*http.Request){
		"a value with a line break":  func(r *http.Request) { r.Header.Set("X-A", "a\r\nX-B: c") },
		"a name with a line break":   func(r *http.Request) { r.Header["X-A: b\r\nX-B"] = []string{"c"} },
		"a method with a line break": func(r *http.Request) { r.Method = "POST / HTTP/1.1\r\nX-B: c\r\n\r\nGET" },
		"no method":                  func(r *http.Request) { r.Method = "" },
		"no name":                    func(r *http.Request) { r.Header[""] = []string{"c"} },
		"a host with a line break":   func(r *http.Request) { r.Host = "h.example\r\nX-B: c" },
		"a path with a line break":   func(r *http.Request) { r.URL.RawQuery = "a\r\nX-B: c" },
		"less body than it says":     func(r *http.Request) { r.ContentLength = 100 },
		"more body than it says":     func(r *http.Request) { r.ContentLength = 1 },
	} {
		r := post(t, url, "body")
		change(r)
		if status, _, _, err := sender(t, inside).Exchange(t.Context(), r, 10); classOf(err) != "blocked" {
			t.Errorf("%s: got %d, %v; want it refused", claim, status, err)
		}
	}
	if got := asked.Load(); got != 0 {
		t.Errorf("%d requests were sent, want none", got)
	}
}

// Each of many gets its own answer, over few connections.
func TestManyExchangesAtOnce(t *testing.T) {
	const atOnce, each = 20, 15
	s := serveVersion(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		_, _ = w.Write(body)
	}, 1)
	client := s.client(t, inside)
	var all sync.WaitGroup
	for i := range atOnce {
		all.Go(func() {
			for n := range each {
				body := bytes.Repeat(fmt.Appendf(nil, "%d/%d ", i, n), 1+n*300)
				status, _, got, err := client.Exchange(t.Context(), post(t, s.URL, string(body)), len(body)+1)
				if status != 200 || err != nil || !bytes.Equal(got, body) {
					t.Errorf("%d/%d: got %d with %d bytes, %v; want its own %d", i, n, status, len(got), err, len(body))
				}
			}
		})
	}
	all.Wait()
	if got := s.connections.Load(); got > atOnce {
		t.Errorf("got %d connections, want at most %d", got, atOnce)
	}
}
