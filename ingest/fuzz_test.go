package ingest_test

import (
	"bytes"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/ingest"
)

// statuses has all statuses of the contract, API section 1.
var statuses = []int{200, 204, 400, 401, 403, 404, 405, 413, 415, 429, 500, 503}

// FuzzServe sends arbitrary requests. The status must be one of the contract, and a stored event
// must have the body that was sent and fields that PostgreSQL can store.
func FuzzServe(f *testing.F) {
	f.Add("POST", "crm", "X-Event-Type", "push", "application/json", []byte(`{"id":1,"type":"x"}`), false)
	f.Add("POST", "crm", "X-Forwarded-For", "1.1.1.1, 10.0.0.1%\xff", "", []byte("\x00\xff"), true)
	f.Add("POST", "crm", "Traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", multipartType, []byte(multipart("id=\x00")), false)
	f.Add("POST", "crm", "X-Request-Id", strings.Repeat("\x80", 300), formType, []byte("id=%ff&id=2&;"), true)
	f.Add("POST", "signed", "X-Sig", sign("a"), ";", []byte("a"), false)
	f.Add("POST", "crm", "X-Sig", "", "multipart/form-data; boundary=", bytes.Repeat([]byte("["), 3000), true)
	f.Add("GET", "..", "Host", "h", "x/y; q=\"", []byte{}, false)
	r := newFixture(f, open, limit(1_000_000, 60_000_000, 1_000_000), func(c *ingest.Config) { c.TrustedProxies = []string{"10.0.0.0/8", "192.0.2.1/32"} },
		func(s *eventhook.Source) {
			s.MaxBodyBytes, s.IdempotencyKeyPaths = 1<<12, []string{"header.x-request-id", "body.id", "body.a.0.b"}
		})
	r.sources.list = append(r.sources.list, newSource("acme", "signed"))
	f.Fuzz(func(t *testing.T, method, slug, name, value, contentType string, body []byte, chunked bool) {
		if strings.ContainsAny(value+contentType+name, "\r\n\x00") || name == "" {
			return // net/http refuses these
		}
		req := &http.Request{
			Method: method, URL: &url.URL{Path: "/api/tenants/acme/eventhook/in/" + slug}, Header: http.Header{}, Host: "h", RemoteAddr: "192.0.2.1:1",
			ContentLength: int64(len(body)), Body: io.NopCloser(bytes.NewReader(body)), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		}
		req.Header.Set("Content-Type", contentType)
		req.Header.Set(name, value)
		if chunked {
			req.ContentLength = -1
		}
		if strings.Contains(slug, "/") {
			return // another route
		}
		r.store.set(func(s *store) { s.events = nil })
		w := r.send(req)
		if slug != "" && !slices.Contains(statuses, w.Code) {
			t.Errorf("answered %d, want one of %v", w.Code, statuses)
		}
		stored := r.store.stored()
		if (w.Code == http.StatusOK) != (len(stored) == 1) {
			t.Fatalf("answered %d, and %d events were stored", w.Code, len(stored))
		}
		if len(stored) == 1 {
			wantStorable(t, stored[0], body)
		}
	})
}

func wantStorable(t *testing.T, e eventhook.Event, body []byte) {
	t.Helper()
	if !bytes.Equal(e.Body, body) || e.BodySize != len(body) {
		t.Errorf("stored %q of %d bytes, want %q", e.Body, e.BodySize, body)
	}
	for _, s := range []string{e.EventType, e.IdempotencyKey, e.ContentType, e.TraceID, e.RequestID, e.SourceIP} {
		if !utf8.ValidString(s) || strings.Contains(s, "\x00") || len(s) > eventhook.MaxKeyBytes {
			t.Errorf("stored %q, want at most 255 bytes of text", s)
		}
	}
	if ip, err := netip.ParseAddr(e.SourceIP); err != nil || ip.Zone() != "" {
		t.Errorf("source ip: got %q, want an address", e.SourceIP)
	}
	if !bytes.HasSuffix(e.Headers, []byte("\r\n")) || !bytes.HasPrefix(e.Headers, []byte("Host: ")) {
		t.Errorf("headers: got %q, want a block with Host", e.Headers)
	}
}
