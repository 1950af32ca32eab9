package egress

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
)

// BenchmarkExchange measures one POST of 1 KB with the headers of a delivery. The
// receiver allocates nothing over HTTP/1.1, so the allocations are the client's.
func BenchmarkExchange(b *testing.B) {
	known := serveVersion(b, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, "ok")
	}, 2)
	secured := &tls.Config{Certificates: known.TLS.Certificates}
	for _, c := range []struct{ name, url string }{
		{"http", benchReceiver(b, nil)},
		{"https", strings.Replace(benchReceiver(b, secured), "http:", "https:", 1)},
		{"h2", known.URL},
	} {
		client := known.client(b, inside)
		body := bytes.Repeat([]byte("x"), 1000)
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetParallelism(10)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if status, _, _, err := client.Exchange(b.Context(), deliveryRequest(b, c.url, body), 1024); status != 200 || err != nil {
						b.Errorf("got %d, %v", status, err)
						return
					}
				}
			})
		})
	}
}

func deliveryRequest(tb testing.TB, url string, body []byte) *http.Request {
	tb.Helper()
	r, err := http.NewRequestWithContext(context.Background(), http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		tb.Fatal(err)
	}
	r.Header["Idempotency-Key"] = nil
	r.Header["User-Agent"] = []string{"eventhook/1"}
	for _, name := range []string{
		"Content-Type", "Webhook-Id", "Webhook-Timestamp", "Webhook-Signature", "X-Eventhook-Signature", "X-Eventhook-Event-Id",
		"X-Eventhook-Event-Type", "X-Eventhook-Delivery-Id", "X-Eventhook-Attempt", "X-Eventhook-Trace-Id", "Traceparent",
	} {
		r.Header[name] = []string{"018f8c2e-7b1a-7c3d-9e4f-0123456789ab"}
	}
	return r
}

// benchReceiver answers each request with 200 and two bytes.
func benchReceiver(tb testing.TB, secured *tls.Config) (url string) {
	tb.Helper()
	return listen(tb, func(conn net.Conn, in *bufio.Reader) {
		if secured != nil {
			conn = tls.Server(conn, secured)
			in.Reset(conn)
		}
		for discardRequest(in) {
			if _, err := conn.Write([]byte(thanks)); err != nil {
				return
			}
		}
	})
}

// discardRequest reads a request without allocating, and reports whether there was one.
func discardRequest(in *bufio.Reader) bool {
	length := 0
	for {
		line, err := in.ReadSlice('\n')
		if err != nil {
			return false
		}
		if text, isLength := bytes.CutPrefix(line, []byte("Content-Length: ")); isLength {
			length, _ = strconv.Atoi(string(bytes.TrimSpace(text)))
		}
		if len(line) == len("\r\n") {
			_, err := in.Discard(length)
			return err == nil
		}
	}
}
