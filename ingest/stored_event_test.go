package ingest_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/ingest"
	"github.com/eventhook/eventhook/verify"
)

func TestTheBodyIsStoredByteForByte(t *testing.T) {
	r := newFixture(t)
	for claim, body := range map[string]string{
		"empty": "", "NUL": "a\x00b", "not UTF-8": "\xff\xfe{\"a\":\xc3}", "broken JSON": `{"a":`, "line ends": "\r\n\n\r a \r\n", "a byte order mark": "\xef\xbb\xbf{}",
		"of a kilobyte": strings.Repeat("k", 1024), "of the first chunk": strings.Repeat("m", 16<<10), "of several chunks": strings.Repeat("s", 100_001),
		"of the maximum size": strings.Repeat("l", eventhook.DefaultMaxBodyBytes),
	} {
		for _, req := range []*http.Request{webhook(body, "Content-Type", "application/json"), chunked(webhook(body, "Content-Type", "application/json"))} {
			e := r.accepted(t, req)
			if string(e.Body) != body || e.BodySize != len(body) || e.ContentType != "application/json" {
				t.Errorf("%s: stored %d bytes %.20q as %s of %d; want %d bytes %.20q", claim, len(e.Body), e.Body, e.ContentType, e.BodySize, len(body), body)
			}
			if cap(e.Body) > 2*len(body)+20<<10 {
				t.Errorf("%s: a body of %d bytes retains %d bytes of memory", claim, len(body), cap(e.Body))
			}
		}
	}
}

func block(e eventhook.Event) []string {
	lines := strings.Split(strings.TrimSuffix(string(e.Headers), "\r\n"), "\r\n")
	slices.Sort(lines)
	return lines
}

func TestHeadersAreStoredUnchanged(t *testing.T) {
	long := strings.Repeat("y", 64<<10)
	e := newFixture(t, open).accepted(t, webhook("", "Host", "hooks.example:8080", "X-Two", "first", "X-Two", "second", "X-Empty", "", "X-Bytes", "a\xff\x80\tb", "X-Long", long, "x-small", "v"))
	want := []string{":verified: none", "Host: hooks.example:8080", "X-Bytes: a\xff\x80\tb", "X-Empty: ", "X-Long: " + long, "X-Sig: " + sign(""), "X-Small: v", "X-Two: first", "X-Two: second"}
	if diff := cmp.Diff(want, block(e)); diff != "" {
		t.Errorf("header block (-want +got):\n%s", diff)
	}
	if first := strings.Index(string(e.Headers), "first"); first > strings.Index(string(e.Headers), "second") {
		t.Errorf("lines of one name have changed their order")
	}
}

func TestCredentialsAreNotStored(t *testing.T) {
	const password = "hunter2-is-secret"
	basic := "Basic " + "dTpodW50ZXIyLWlzLXNlY3JldA==" // u:hunter2-is-secret
	for _, c := range []struct {
		claim  string
		config verify.Config
		name   string
		right  string
	}{
		{"hmac", verify.Config{Type: "hmac", Header: "X-Sig", Secrets: []string{secret, password}}, "X-Sig", sign("")},
		{"api_key", verify.Config{Type: "api_key", Header: "x-api-KEY", Values: []string{password}}, "X-Api-Key", password},
		{"basic_auth", verify.Config{Type: "basic_auth", Username: "u", Password: password}, "Authorization", basic},
	} {
		t.Run(c.claim, func(t *testing.T) {
			r := newFixture(t, func(s *eventhook.Source) { s.Verifier = verifier(c.config) })
			req := webhook("", "Cookie", "a="+password, "Cookie", "b="+password, "Proxy-Authorization", password, "X-Other", "kept")
			if c.name != "Authorization" {
				req.Header.Set("Authorization", "Bearer "+password)
			}
			req.Header.Set(c.name, c.right)
			e := r.accepted(t, req)
			req.Header.Set(c.name, "Basic "+password)
			w := r.wantStatus(t, req, http.StatusUnauthorized)
			r.store.set(func(s *store) { s.err = errDown })
			req.Header.Set(c.name, c.right)
			failed := r.wantStatus(t, req, http.StatusInternalServerError)
			everything := fmt.Sprintf("%+v %s %s %s %v %s %v", e, e.Headers, w.Body, failed.Body, w.Header(), r.log, r.observer.reasons)
			for _, leak := range []string{password, basic, secret, "dTpo"} {
				if strings.Contains(everything, leak) {
					t.Errorf("%q is found in %s", leak, everything)
				}
			}
			for _, line := range []string{"Authorization: [redacted]", "Cookie: [redacted]", "Proxy-Authorization: [redacted]", "X-Other: kept", "Host: example.com"} {
				if !slices.Contains(block(e), line) {
					t.Errorf("stored %q, want %q among them", block(e), line)
				}
			}
		})
	}
}

func TestA401RevealsNothing(t *testing.T) {
	for reason, header := range map[string]string{"missing_header": "", "encoding": "zz", "mismatch": sign("another body")} {
		r := newFixture(t)
		req := webhook("the body")
		req.Header.Del("X-Sig")
		if header != "" {
			req.Header.Set("X-Sig", header)
		}
		w := r.send(req)
		wantProblem(t, w, http.StatusUnauthorized, unverified)
		wantCount(t, "headers", len(w.Header()), 2) // Content-Type and X-Request-Id
		if diff := cmp.Diff([]string{reason}, r.observer.reasons); diff != "" {
			t.Errorf("reasons in the metric (-want +got):\n%s", diff)
		}
		if !strings.Contains(r.log.String(), `"reason":"`+reason+`"`) || strings.Contains(r.log.String(), "the body") {
			t.Errorf("logged %s, want the reason and nothing of the body", r.log)
		}
		r.wantStored(t, 0)
	}
}

func TestTraceAndRequestID(t *testing.T) {
	const id, parent = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
	for _, c := range []struct{ claim, traceparent, want string }{
		{"valid", "00-" + id + "-" + parent + "-01", id},
		{"no header", "", ""},
		{"a zero trace id", "00-" + strings.Repeat("0", 32) + "-" + parent + "-01", ""},
		{"a zero parent id", "00-" + id + "-" + strings.Repeat("0", 16) + "-01", ""},
		{"upper case", "00-" + strings.ToUpper(id) + "-" + parent + "-01", ""},
		{"a trace id that is not hexadecimal", "00-" + id[:31] + "g-" + parent + "-01", ""},
		{"a parent id that is not hexadecimal", "00-" + id + "-" + parent[:15] + "\xff-01", ""},
		{"flags that are not hexadecimal", "00-" + id + "-" + parent + "-0x", ""},
		{"no hyphen", "00-" + id + "_" + parent + "-01", ""},
		{"version ff", "ff-" + id + "-" + parent + "-01", ""},
		{"too long", "00-" + id + "-" + parent + "-01-", ""},
		{"a later version", "01-" + id + "-" + parent + "-03", id},
		{"a later version with more members", "cc-" + id + "-" + parent + "-01-more", id},
		{"a later version with longer flags", "cc-" + id + "-" + parent + "-01more", ""},
		{"too short", "00-" + id, ""},
	} {
		t.Run(c.claim, func(t *testing.T) {
			e := newFixture(t).accepted(t, webhook("", "Traceparent", c.traceparent, "X-Request-Id", "r\xff"+strings.Repeat("i", 300)))
			if e.TraceID != c.want {
				t.Errorf("trace id: got %q, want %q", e.TraceID, c.want)
			}
			if want := `r\xff` + strings.Repeat("i", 250); e.RequestID != want {
				t.Errorf("request id: got %q, want %q", e.RequestID, want)
			}
		})
	}
}

func TestTraceFlags(t *testing.T) {
	const rest = "-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-"
	for traceparent, want := range map[string]string{"00" + rest + "03": "03", "01" + rest + "03": "01", "01" + rest + "02": "00", "01" + rest + "fd-x": "01", "": ""} {
		if _, _, flags := eventhook.ParseTraceparent(traceparent); flags != want {
			t.Errorf("%s: got the flags %q, want %q", traceparent, flags, want)
		}
	}
}

// These requests have bytes that no client library would send.
func TestOverAConnection(t *testing.T) {
	r := newFixture(t, open, func(s *eventhook.Source) { s.MaxBodyBytes = 100 })
	server := httptest.NewServer(r.router)
	defer server.Close()
	head := " " + ingest.Path("acme", "crm") + " HTTP/1.1\r\nHost: h\r\nConnection: close\r\n"
	for _, c := range []struct {
		claim, request string
		want, stored   int
	}{
		{"a body in chunks", "POST" + head + "Transfer-Encoding: chunked\r\n\r\n3\r\na\x00b\r\n0\r\nX-Trailer: t\r\n\r\n", 200, 1},
		{"chunks beyond the limit", "POST" + head + "Transfer-Encoding: chunked\r\n\r\n64\r\n" + strings.Repeat("x", 100) + "\r\n1\r\nx\r\n0\r\n\r\n", 413, 0},
		{"a length beyond the limit", "POST" + head + "Content-Length: 101\r\n\r\n", 413, 0},
		{"a length beyond all limits", "POST" + head + "Content-Length: 9223372036854775807\r\n\r\n", 413, 0},
		{"malformed chunks", "POST" + head + "Transfer-Encoding: chunked\r\n\r\n3\r\nabcd\r\n0\r\n\r\n", 400, 0},
		{"a header that is not UTF-8", "POST" + head + "X-Event-Type: \xff\r\n\r\n", 200, 1},
		{"a header of 64 KB", "POST" + head + "X-Long: " + strings.Repeat("y", 64<<10) + "\r\n\r\n", 200, 1},
		{"an unknown method", "WEBHOOK" + head + "\r\n", 405, 0},
	} {
		t.Run(c.claim, func(t *testing.T) {
			before := len(r.store.stored())
			conn, err := net.Dial("tcp", server.Listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			_, _ = io.WriteString(conn, c.request)
			answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer answer.Body.Close()
			if answer.StatusCode != c.want {
				t.Errorf("answered %d, want %d", answer.StatusCode, c.want)
			}
			wantCount(t, "stored", len(r.store.stored())-before, c.stored)
		})
	}
}
