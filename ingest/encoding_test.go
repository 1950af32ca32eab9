package ingest_test

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/ingest"
)

func packed(w interface {
	io.WriteCloser
	Reset(w io.Writer)
}, text string) string {
	var b bytes.Buffer
	w.Reset(&b)
	_, _ = io.WriteString(w, text)
	_ = w.Close()
	return b.String()
}

func gzipped(text string) string { return packed(gzip.NewWriter(io.Discard), text) }
func zlibbed(text string) string { return packed(zlib.NewWriter(io.Discard), text) }

func keyed(s *eventhook.Source) { s.IdempotencyKeyPaths = []string{"body.id"} }

// An encoded body is verified and stored as it was sent, and decoded to find its key and type.
func TestAnEncodedBodyIsStoredUnchangedAndParsedDecoded(t *testing.T) {
	const text = `{"id":"e1","type":"order.paid"}`
	for _, c := range []struct{ encoding, body string }{
		{"gzip", gzipped(text)}, {"x-gzip", gzipped(text)}, {"deflate", zlibbed(text)}, {"identity", text},
	} {
		r := newFixture(t, keyed)
		e := r.accepted(t, webhook(c.body, "Content-Type", "application/json", "Content-Encoding", c.encoding))
		if string(e.Body) != c.body || e.BodySize != len(c.body) {
			t.Errorf("%s: %d bytes are stored of size %d, want the %d bytes that were sent", c.encoding, len(e.Body), e.BodySize, len(c.body))
		}
		if e.IdempotencyKey != "e1" || e.EventType != "order.paid" {
			t.Errorf("%s: key %q and type %q, want those of the decoded body", c.encoding, e.IdempotencyKey, e.EventType)
		}
		if !strings.Contains(string(e.Headers), "Content-Encoding: "+c.encoding) {
			t.Errorf("%s: the stored headers lack the encoding: %s", c.encoding, e.Headers)
		}
	}
}

// Content-Encoding is not signed. With another one, or without one, the same bytes have the same
// key.
func TestAnotherContentEncodingDoesNotChangeTheKey(t *testing.T) {
	const text = `{"id":"e1"}`
	for _, body := range []string{text, gzipped(text), zlibbed(text)} {
		for _, encoding := range []string{"", "identity", "gzip", "x-gzip", "deflate"} {
			r := newFixture(t, keyed)
			if e := r.accepted(t, webhook(body, "Content-Type", "application/json", "Content-Encoding", encoding)); e.IdempotencyKey != "e1" {
				t.Errorf("%q with Content-Encoding %q: the key is %q, want e1", body[:2], encoding, e.IdempotencyKey)
			}
		}
	}
}

func TestOtherContentEncodingsAreRefused(t *testing.T) {
	for _, encodings := range [][]string{{"br"}, {"zstd"}, {"compress"}, {"gzip, gzip"}, {"gzip", "deflate"}, {"gzip", "identity"}} {
		r := newFixture(t)
		body := &counted{Reader: strings.NewReader("x")}
		req := webhook("x")
		req.Body, req.Header["Content-Encoding"] = io.NopCloser(body), encodings
		wantProblem(t, r.send(req), http.StatusUnsupportedMediaType, "The content encoding is not supported; send gzip, deflate or none.")
		wantCount(t, fmt.Sprintf("%v: reads of the body", encodings), body.reads, 0)
		wantCount(t, "outcome", r.observer.outcomes[ingest.OutcomeEncoding], 1)
	}
}

// A request that went through too many gateways is refused before its body is read.
func TestALoopIsRefused(t *testing.T) {
	for hops, want := range map[string]int{"9": http.StatusLoopDetected, "99999999999999999999999": http.StatusLoopDetected, "8": http.StatusOK, "-9": http.StatusOK, "nine": http.StatusOK} {
		r := newFixture(t)
		body := &counted{Reader: strings.NewReader("x")}
		req := webhook("x", "X-Eventhook-Hops", hops)
		req.Body = io.NopCloser(body)
		answer := r.send(req)
		if answer.Code != want {
			t.Errorf("%s hops: answered %d, want %d", hops, answer.Code, want)
		}
		if want == http.StatusLoopDetected {
			wantProblem(t, answer, want, "The request went through more than 8 gateways: their routes and subscriptions form a loop.")
			wantCount(t, hops+": reads of the body", body.reads, 0)
			wantCount(t, "outcome", r.observer.outcomes[ingest.OutcomeLoop], 1)
		}
	}
}

// A decoded body above the source's limit is refused, but only verified bodies are decoded.
func TestADecompressionBombIsRefused(t *testing.T) {
	small := func(s *eventhook.Source) { s.MaxBodyBytes = 64 << 10 }
	bomb := gzipped(strings.Repeat(" ", 8<<20))
	r := newFixture(t, small, inFlight(8<<20))
	wantProblem(t, r.send(webhook(bomb, "Content-Encoding", "gzip")), http.StatusRequestEntityTooLarge, "The body is larger than this source allows.")
	forged := forgery(bomb)
	forged.Header.Set("Content-Encoding", "gzip")
	wantProblem(t, r.send(forged), http.StatusUnauthorized, unverified)
	r.wantStored(t, 0)
	if used := r.handler.HeldBytes(); used != 0 {
		t.Errorf("after the responses %d bytes are used, want 0", used)
	}
	r.accepted(t, webhook(gzipped(strings.Repeat(" ", 64<<10)), "Content-Encoding", "gzip"))
	if e := r.accepted(t, webhook(bomb[:len(bomb)-100])); e.IdempotencyKey != "" { // without the header it may be a file
		t.Errorf("the key is %q", e.IdempotencyKey)
	}
}

// Decoded bytes are reserved; if they do not fit, the request is shed.
func TestDecodedBytesAreReserved(t *testing.T) {
	large := func(s *eventhook.Source) { s.MaxBodyBytes = 8 << 20 }
	r := newFixture(t, large, inFlight(4<<20))
	wantProblem(t, r.send(webhook(gzipped(strings.Repeat(" ", 8<<20)), "Content-Encoding", "gzip")), http.StatusServiceUnavailable, tooMuch)
	r.accepted(t, webhook(gzipped(strings.Repeat(" ", 1<<20)), "Content-Encoding", "gzip"))
	if used := r.handler.HeldBytes(); used != 0 {
		t.Errorf("after the responses %d bytes are used, want 0", used)
	}
}

// A genuine body that cannot be decoded is stored unchanged.
func TestABodyWithABrokenEncodingIsStored(t *testing.T) {
	r := newFixture(t, func(s *eventhook.Source) { s.EventTypePaths = []string{"body.type", "header.x-topic"} })
	body := gzipped(`{"type":"order.paid"}`)
	body = body[:len(body)-3]
	e := r.accepted(t, webhook(body, "Content-Type", "application/json", "Content-Encoding", "gzip", "X-Topic", "orders"))
	if string(e.Body) != body || e.EventType != "orders" {
		t.Errorf("%d bytes and type %q, want the %d bytes and the header's type", len(e.Body), e.EventType, len(body))
	}
}

// While an event waits to be stored, only its raw bytes are reserved.
func TestDecodedBytesAreReleasedBeforeTheEventIsStored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFixture(t)
		gate := make(chan struct{})
		r.store.set(func(s *store) { s.gate = gate })
		go r.wantStatus(t, webhook(gzipped(strings.Repeat(" ", 1<<20)), "Content-Encoding", "gzip"), http.StatusOK)
		synctest.Wait()
		if used := r.handler.HeldBytes(); used < 1<<10 || used > 8<<10 {
			t.Errorf("%d bytes are used, want those of a body of about 1 KiB", used)
		}
		close(gate)
		synctest.Wait()
	})
}
