package httpguard

import (
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

// echoPath reads the body and answers with the path and the length of the body.
var echoPath = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	_, _ = fmt.Fprintf(w, "%s %d", r.URL.Path, len(body))
})

func TestRequestSmuggling(t *testing.T) {
	send := serveRaw(t, echoPath)
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
			got := strings.Join(send(c.request), ", ")
			if first, _, isLate := strings.Cut(c.want, ", "+refused); isLate && got == refused {
				got = first + ", " + refused // both requests were read at once, so the first is not served either
			}
			if got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
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
