package httpguard

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/eventhook/eventhook/internal/certfile/certfiletest"
	"github.com/eventhook/eventhook/internal/httpguard/httpguardtest"
)

// serveRaw serves a handler as both listeners of the gateway do. The returned function
// sends a raw request and returns the answers.
func serveRaw(t *testing.T, h http.Handler) func(request string) []string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	// The test hangs if an answer waits for one of these timeouts.
	s := &http.Server{
		Handler: Handler(time.Now, h), ConnContext: ConnContext,
		ReadHeaderTimeout: time.Hour, ReadTimeout: time.Hour, IdleTimeout: time.Hour,
		ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug),
	}
	go func() { _ = s.Serve(Listener{l}) }()
	t.Cleanup(func() { _ = s.Close() })
	return func(request string) []string { return httpguardtest.Send(t, l.Addr().String(), request) }
}

// serveTLS serves a handler with TLS as both listeners of the gateway do, and returns the
// address.
func serveTLS(t *testing.T, h http.Handler, handshake time.Duration) (address string) {
	t.Helper()
	address, _ = startTLS(t, h, handshake)
	return address
}

// startTLS is serveTLS for a test that also closes the server.
func startTLS(t *testing.T, h http.Handler, handshake time.Duration) (address string, s *http.Server) {
	t.Helper()
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := certfiletest.New(t, "test", time.Now().Add(time.Hour))
	pair, err := tls.LoadX509KeyPair(f.Cert, f.Key)
	if err != nil {
		t.Fatal(err)
	}
	l := NewTLSListener(inner, &tls.Config{Certificates: []tls.Certificate{pair}, NextProtos: []string{"h2", "http/1.1"}}, handshake)
	s = &http.Server{Handler: Handler(time.Now, h), ConnContext: ConnContext, ReadHeaderTimeout: time.Hour,
		ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug)}
	go func() { _ = s.Serve(l) }()
	t.Cleanup(func() { _ = s.Close() })
	return inner.Addr().String(), s
}

func overTLS(t *testing.T) *http.Client {
	client := &http.Client{Transport: &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	t.Cleanup(client.CloseIdleConnections)
	return client
}

func TestTLSListenerServesBothVersionsAndRefusesPlainHTTP(t *testing.T) {
	address := serveTLS(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprint(w, r.Proto, " ", r.TLS != nil && r.TLS.HandshakeComplete)
	}), time.Minute)
	for _, c := range []struct {
		want string
		send func() []string
	}{
		{"200 HTTP/1.1 true", func() []string {
			return httpguardtest.SendTLS(t, address, "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
		}},
		{"400 This listener serves HTTPS; the request used HTTP.", func() []string {
			return httpguardtest.Send(t, address, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
		}},
	} {
		if got := strings.Join(c.send(), ", "); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
	response, err := overTLS(t).Get("https://" + address)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	if body, _ := io.ReadAll(response.Body); string(body) != "HTTP/2.0 true" {
		t.Errorf("HTTP/2 is answered %s", body)
	}
}

// A client that sends nothing occupies the listener until the timeout of the handshake, which is
// an hour here. Closing the server ends the handshake.
func TestTLSListenerWaitsForNoHandshake(t *testing.T) {
	address, server := startTLS(t, echoPath, time.Hour)
	silent, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = silent.Close() }()
	if got := httpguardtest.SendTLS(t, address, "GET /a HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"); len(got) != 1 || got[0] != "200 /a 0" {
		t.Errorf("got %q, want 200", got)
	}
	_ = server.Close() // hangs if the handshake does not end
}

func TestTLSListenerEndsSlowHandshakes(t *testing.T) {
	silent, err := net.Dial("tcp", serveTLS(t, echoPath, time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = silent.Close() }()
	if _, err := silent.Read(make([]byte, 1)); err == nil {
		t.Error("the server answered a client that sent nothing")
	}
}

// A refusal resets its stream. The connection serves the other requests.
func TestRefusalOverHTTP2KeepsTheConnection(t *testing.T) {
	connections := 0
	address := serveTLS(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Error(w, r.RemoteAddr, http.StatusUnauthorized)
	}), time.Minute)
	client, was := overTLS(t), ""
	for range 3 {
		body, unsent := io.Pipe()
		response, err := client.Post("https://"+address, "application/json", body)
		if err != nil {
			t.Fatal(err)
		}
		from, _ := io.ReadAll(response.Body)
		_, _ = response.Body.Close(), unsent.Close()
		if response.StatusCode != http.StatusUnauthorized {
			t.Errorf("answered %d, want 401", response.StatusCode)
		}
		if string(from) != was {
			connections++
		}
		was = string(from)
	}
	if n := connections; n != 1 {
		t.Errorf("three refusals needed %d connections, want 1", n)
	}
}

// echoPath reads the body and answers with the path and the length of the body.
var echoPath = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	_, _ = fmt.Fprintf(w, "%s %d", r.URL.Path, len(body))
})

func TestRequestSmuggling(t *testing.T) {
	plain, address := serveRaw(t, echoPath), serveTLS(t, echoPath, time.Minute)
	const refused = "400 " + framingProblem
	const smuggled = "0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n"
	const last = "GET /last HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
	both := "Host: x\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n"
	for _, c := range []struct{ claim, request, want string }{
		{"both headers", "POST /a HTTP/1.1\r\n" + both + smuggled, refused},
		{"in the other order", "POST /a HTTP/1.1\r\nHost: x\r\ntransfer-encoding: chunked\r\nCONTENT-LENGTH: 4\r\n\r\n" + smuggled, refused},
		{"lines with LF", "POST /a HTTP/1.1\nHost: x\nContent-Length: 4\nTransfer-Encoding: chunked\n\n" + smuggled, refused},
		{"a folded line", "POST /a HTTP/1.1\r\nHost: x\r\nContent-Length:\r\n 4\r\nTransfer-Encoding:\r\n chunked\r\n\r\n" + smuggled, refused},
		{"a folded length, and a body like a header", "POST /a HTTP/1.1\r\nHost: x\r\nContent-Length:\r\n 27\r\n\r\nContent-Length: 10000\r\n\r\n\r\n\r\n" +
			"POST /b HTTP/1.1\r\n" + both + smuggled, refused},
		{"a length after many spaces", "POST /a HTTP/1.1\r\nHost: x\r\nContent-Length:" + strings.Repeat(" ", 60) + "27\r\n\r\nContent-Length: 10000\r\n\r\n\r\n\r\n" +
			"POST /b HTTP/1.1\r\n" + both + smuggled, refused},
		{"a length after many zeros", "POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: " + strings.Repeat("0", 60) + "27\r\n\r\nContent-Length: 10000\r\n\r\n\r\n\r\n" +
			"POST /b HTTP/1.1\r\n" + both + smuggled, refused},
		{"a length between spaces", "POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: \t 2 \t \r\n\r\nhi" + last, "200 /a 2, 200 /last 0"},
		{"HTTP/1.0", "POST /a HTTP/1.0\r\nConnection: keep-alive\r\n" + both + smuggled, refused},
		{"a long header before", "POST /a HTTP/1.1\r\nX: " + strings.Repeat("x", 9000) + "\r\n" + both + smuggled, refused},
		{"after a request with a body", "POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 5000\r\n\r\n" +
			strings.Repeat("\ncontent-length: 7\n", 500)[:5000] + "POST /b HTTP/1.1\r\n" + both + smuggled, "200 /a 5000, " + refused},
		{"chunked alone is served as the last request", "POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n" + smuggled, "200 /a 5"},
		{"chunked with Content-Length in the body", "POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" +
			"13\r\nContent-Length: 5\r\n\r\n\r\n0\r\n\r\n", "200 /a 19"},
		{"requests with lengths on one connection", "POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nhiGET /b HTTP/1.1\r\nHost: x\r\n\r\n" + last,
			"200 /a 2, 200 /b 0, 200 /last 0"},
		{"a body that looks like a header", "POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 30\r\n\r\n\nTransfer-Encoding: chunked\r\n\r\n" + last, "200 /a 30, 200 /last 0"},
	} {
		t.Run(c.claim, func(t *testing.T) {
			testSmuggling(t, strings.Join(plain(c.request), ", "), c.want)
			testSmuggling(t, strings.Join(httpguardtest.SendTLS(t, address, c.request), ", "), c.want)
		})
	}
}

func testSmuggling(t *testing.T, got, want string) {
	t.Helper()
	const refused = ", 400 " + framingProblem
	if first, _, isLate := strings.Cut(want, refused); isLate && ", "+got == refused {
		got = first + refused // both requests were read at once, so the first is not served either
	}
	if got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestRefusalIsAProblem(t *testing.T) {
	c := &conn{isUnclear: true}
	w := httptest.NewRecorder()
	r := httptest.NewRequestWithContext(ConnContext(t.Context(), c), http.MethodPost, "/", nil)
	refuseAmbiguous(echoPath).ServeHTTP(w, r)
	var p struct {
		Title, Detail string
		Status        int
	}
	if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil || w.Code != 400 || w.Header().Get("Content-Type") != "application/problem+json" ||
		w.Header().Get("Connection") != "close" || p.Title != "Bad Request" || p.Status != 400 || p.Detail == "" {
		t.Errorf("answered %d %v %s, want a problem and Connection: close", w.Code, w.Header(), w.Body)
	}
}

func TestRefusalDoesNotWaitForTheBody(t *testing.T) {
	refuse := func(status int) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", status) })
	}
	for _, status := range []int{401, 404, 413, 429, 503} {
		for _, framing := range []string{"Content-Length: 1000", "Content-Length: 100000000", "Transfer-Encoding: chunked", "Content-Length: 1000\r\nExpect: 100-continue"} {
			t.Run(fmt.Sprintf("%d %q", status, framing), func(t *testing.T) {
				t.Parallel()
				// The client sends no body and keeps the connection open. Send returns when the server closes it.
				got := serveRaw(t, refuse(status))("POST / HTTP/1.1\r\nHost: x\r\n" + framing + "\r\n\r\n")
				if want := fmt.Sprintf("%d no", status); len(got) != 1 || got[0] != want {
					t.Errorf("got %q, want %q and the end of the connection", got, want)
				}
			})
		}
	}
}

func TestRefusalAfterTheBodyKeepsTheConnection(t *testing.T) {
	send := serveRaw(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.ReadAll(r.Body)
		http.Error(w, r.URL.Path, http.StatusUnprocessableEntity)
	}))
	got := send("POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nhiPOST /b HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 2\r\n\r\nhi")
	if want := "422 /a, 422 /b"; strings.Join(got, ", ") != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
