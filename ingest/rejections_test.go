package ingest_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/ingest"
)

// rejectionStore is an ingest.RejectionStore in memory.
type rejectionStore struct {
	mu     sync.Mutex
	err    error
	hangs  bool   // until ctx ends
	during func() // unless nil, called during each write
	writes int
	last   []eventhook.Rejection
	counts map[eventhook.SourceID]map[string]eventhook.RejectionCount
}

var _ ingest.RejectionStore = (*rejectionStore)(nil)

func (s *rejectionStore) RecordRejections(ctx context.Context, last []eventhook.Rejection, counts []eventhook.RejectionCount) error {
	if s.during != nil {
		s.during()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writes++
	if s.hangs {
		<-ctx.Done()
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if s.err != nil {
		return s.err
	}
	s.last = append(s.last, last...)
	if s.counts == nil {
		s.counts = map[eventhook.SourceID]map[string]eventhook.RejectionCount{}
	}
	for _, c := range counts {
		byReason := s.counts[c.SourceID]
		if byReason == nil {
			byReason = map[string]eventhook.RejectionCount{}
			s.counts[c.SourceID] = byReason
		}
		if old, ok := byReason[c.Reason]; ok {
			c.Count, c.FirstAt = c.Count+old.Count, old.FirstAt
		}
		byReason[c.Reason] = c
	}
	return nil
}

// countsOf returns the counts of a source by reason.
func (s *rejectionStore) countsOf(id eventhook.SourceID) map[string]int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	counts := map[string]int64{}
	for reason, c := range s.counts[id] {
		counts[reason] = c.Count
	}
	return counts
}

func (s *rejectionStore) written() []eventhook.Rejection {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.last)
}

func (s *rejectionStore) tries() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.writes
}

// record writes the buffered rejections, as at a stop.
func (r *fixture) record(t *testing.T, s *rejectionStore) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if err := r.handler.RecordRejections(ctx, s); err != nil {
		t.Errorf("RecordRejections: %v, want nil at the end of ctx", err)
	}
}

func (r *fixture) crm() eventhook.SourceID { return r.sources.list[0].ID }

func wantSame(t *testing.T, what string, got, want any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func hashOf(body string) []byte {
	sum := sha256.Sum256([]byte(body))
	return sum[:]
}

func TestTheRejectionOfARefusedRequest(t *testing.T) {
	strict := func(s *eventhook.Source) {
		s.MaxBodyBytes, s.ContentTypes, s.RequireIdempotencyKey = 20, []string{"text/plain"}, true
		s.AllowedIPRanges, s.IdempotencyKeyPaths = []string{"192.0.2.0/24"}, []string{"body.id"}
	}
	const body = "precious"
	text := func(r *http.Request) *http.Request {
		r.Header.Set("Content-Type", "text/plain")
		r.Header.Set("Authorization", "Bearer hush")
		r.URL.RawQuery = "token=hush"
		return r
	}
	unsigned := text(webhook(body))
	unsigned.Header.Del("X-Sig")
	names := []string{"Authorization", "Content-Type", "X-Sig"}
	for _, c := range []struct {
		claim string
		r     *http.Request
		want  eventhook.Rejection
	}{
		{"forged", text(forgery(body)), eventhook.Rejection{Outcome: "unverified", Reason: "mismatch", BodySize: 8, BodySHA256: hashOf(body)}},
		{"unsigned", unsigned, eventhook.Rejection{Outcome: "unverified", Reason: "missing_header", BodySize: 8, BodySHA256: hashOf(body),
			HeaderNames: []string{"Authorization", "Content-Type"}}},
		{"forged, of unknown length", chunked(text(forgery(body))), eventhook.Rejection{Outcome: "unverified", Reason: "mismatch", BodySize: 8, BodySHA256: hashOf(body)}},
		{"forged and empty", text(forgery("")), eventhook.Rejection{Outcome: "unverified", Reason: "mismatch", BodySHA256: hashOf("")}},
		{"without a key", text(webhook(body)), eventhook.Rejection{Outcome: "key_missing", Reason: "key_missing", BodySize: 8, BodySHA256: hashOf(body)}},
		{"from elsewhere", from("203.0.113.9:1", text(webhook(body))), eventhook.Rejection{Outcome: "address_not_allowed", Reason: "address_not_allowed",
			ClientAddress: "203.0.113.9", BodySize: 8}},
		{"of another type", webhook(body, "Content-Type", "text/html", "Authorization", "Bearer hush"),
			eventhook.Rejection{Outcome: "content_type_refused", Reason: "content_type_refused", BodySize: 8}},
		{"too large", text(webhook(strings.Repeat(body, 3))), eventhook.Rejection{Outcome: "too_large", Reason: "too_large", BodySize: 24}},
		{"too large, of unknown length", chunked(text(webhook(strings.Repeat(body, 3)))),
			eventhook.Rejection{Outcome: "too_large", Reason: "too_large", BodySize: eventhook.UnknownBodySize}},
		{"cut off", truncated(text(webhook(body))), eventhook.Rejection{Outcome: "unreadable", Reason: "unreadable", BodySize: 8}},
	} {
		t.Run(c.claim, func(t *testing.T) {
			r, s := newFixture(t, strict), &rejectionStore{}
			r.send(c.r)
			r.record(t, s)
			if len(s.last) != 1 {
				t.Fatalf("got %d rejections, want one", len(s.last))
			}
			got := s.last[0]
			want := c.want
			want.ID, want.SourceID, want.Method = got.ID, r.crm(), http.MethodPost
			if want.ClientAddress == "" {
				want.ClientAddress = "192.0.2.1"
			}
			if want.HeaderNames == nil {
				want.HeaderNames = names
			}
			if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(want, "Detail")); diff != "" {
				t.Errorf("rejection (-want +got):\n%s", diff)
			}
			if (got.Detail != "") != (want.Outcome == "unverified") {
				t.Errorf("the detail is %q, want one only if the verifier refused the request", got.Detail)
			}
			if at := got.RejectedAt(); !at.Equal(noon) {
				t.Errorf("rejected at %s, want %s", at, noon)
			}
			wantSame(t, "counts", s.counts, map[eventhook.SourceID]map[string]eventhook.RejectionCount{r.crm(): {
				want.Reason: {SourceID: r.crm(), Reason: want.Reason, Count: 1, FirstAt: noon, LastAt: noon}}})
			raw, err := json.Marshal(s.last)
			if err != nil {
				t.Fatal(err)
			}
			for _, private := range []string{"precious", "hush", secret, sign(body), sign(body + "!")} {
				if bytes.Contains(raw, []byte(private)) {
					t.Errorf("%q is in %s", private, raw)
				}
			}
		})
	}
}

func TestAnExceededRateLimitIsARejection(t *testing.T) {
	r, s := newFixture(t, limit(1, 60, 2)), &rejectionStore{}
	r.answered200(2)
	for range 3 {
		r.send(webhook("x"))
	}
	r.record(t, s)
	wantCount(t, "rejections", len(s.last), 3)
	wantSame(t, "counts", s.countsOf(r.crm()), map[string]int64{"rate_limited": 3})
}

// Failures of the gateway, and requests to sources that do not exist, are not rejections.
func TestRequestsThatAreNoRejections(t *testing.T) {
	unknown := webhook("")
	unknown.URL.Path = ingest.Path("acme", "unknown")
	for _, c := range []struct {
		claim  string
		r      *http.Request
		change any
		then   func(*fixture)
	}{
		{"accepted", webhook(""), open, func(*fixture) {}},
		{"no such source", unknown, open, func(*fixture) {}},
		{"a disabled source", webhook(""), func(s *eventhook.Source) { s.IsEnabled = false }, func(*fixture) {}},
		{"a method that no source takes", httptest.NewRequest(http.MethodPut, ingest.Path("acme", "crm"), nil), open, func(*fixture) {}},
		{"not stored", webhook(""), open, func(r *fixture) { r.store.set(func(s *store) { s.err = errDown }) }},
		{"shed", webhook(""), inFlight(1), func(*fixture) {}},
	} {
		t.Run(c.claim, func(t *testing.T) {
			r, s := newFixture(t, c.change), &rejectionStore{}
			c.then(r)
			r.send(c.r)
			r.record(t, s)
			wantCount(t, "writes", s.writes, 0)
		})
	}
}

func TestAFloodBeyondTheClientsBudgetIsOnlyCounted(t *testing.T) {
	r, s := newFixture(t, forgeriesOf(1, 3)), &rejectionStore{}
	for range 10 {
		r.send(forgery(""))
	}
	r.record(t, s)
	wantCount(t, "rejections", len(s.last), 3)
	wantSame(t, "counts", s.countsOf(r.crm()), map[string]int64{"mismatch": 3, "forgery_limited": 7})
}

// However many requests are refused, only the last twenty are written, in one write.
func TestAFloodCostsOneWrite(t *testing.T) {
	const flood = 100_000
	r, s := newFixture(t, forgeriesOf(1_000_000, 1_000_000)), &rejectionStore{}
	w := &discard{header: http.Header{}}
	send := func(req *http.Request) {
		clear(w.header)
		r.router.ServeHTTP(w, req)
		if w.status != http.StatusUnauthorized {
			t.Fatalf("answered %d, want 401", w.status)
		}
	}
	content := bytes.NewReader(nil)
	same := forgery("same")
	same.Body = io.NopCloser(content)
	for range flood - 20 {
		content.Reset([]byte("same"))
		send(same)
	}
	var want [][]byte
	for n := range 20 {
		body := fmt.Sprint("one of the last ", n)
		send(forgery(body))
		want = append(want, hashOf(body))
	}
	r.record(t, s)
	wantCount(t, "writes", s.writes, 1)
	wantSame(t, "counts", s.countsOf(r.crm()), map[string]int64{"mismatch": flood})
	var got [][]byte
	for _, kept := range s.last {
		got = append(got, kept.BodySHA256)
	}
	wantSame(t, "the last twenty's hashes", got, want)
	r.record(t, s)
	wantCount(t, "writes without new rejections", s.writes, 1)
}

func TestRejectionsOfManySourcesAreBounded(t *testing.T) {
	const sources, each = 1010, 3
	r, s := newFixture(t, forgeriesOf(10_000, 10_000)), &rejectionStore{}
	for n := range sources - 1 {
		r.sources.list = append(r.sources.list, newSource("acme", fmt.Sprint("s", n)))
	}
	for _, source := range r.sources.list {
		for range each {
			req := forgery("")
			req.URL.Path = ingest.Path("acme", source.Slug)
			r.send(req)
		}
	}
	r.record(t, s)
	wantCount(t, "sources with counts", len(s.counts), 1000)
	wantCount(t, "stored rejections", len(s.last), 2000)
	for id := range s.counts {
		wantSame(t, "counts", s.countsOf(id), map[string]int64{"mismatch": each})
	}
}

func TestAFailedWriteIsRetried(t *testing.T) {
	r, s := newFixture(t, forgeriesOf(1000, 1000)), &rejectionStore{err: errDown}
	var want []string
	forge := func(n int) {
		for range n {
			body := fmt.Sprint(len(want))
			r.clock.Advance(time.Millisecond)
			r.send(forgery(body))
			want = append(want, string(hashOf(body)))
		}
	}
	forge(15)
	r.record(t, s)
	forge(3)
	r.record(t, s)
	forge(6)
	wantCount(t, "rejections in a failing store", len(s.last), 0)
	s.err = nil
	r.record(t, s)
	var got []string
	for _, kept := range s.last {
		got = append(got, string(kept.BodySHA256))
	}
	wantSame(t, "the last twenty's hashes, oldest first", got, want[4:])
	wantSame(t, "counts", slices.Collect(maps.Values(s.counts[r.crm()])), []eventhook.RejectionCount{
		{SourceID: r.crm(), Reason: "mismatch", Count: 24, FirstAt: noon.Add(time.Millisecond), LastAt: noon.Add(24 * time.Millisecond)}})
	if !strings.Contains(r.log.String(), "rejected requests could not be recorded") {
		t.Errorf("logged %s, want the failed writes", r.log)
	}
}

// Rejections that arrive during a failed write are newer than those of the write, and both
// together stay within the limit of their source.
func TestRejectionsDuringAFailedWriteAreNewer(t *testing.T) {
	const sources, each = 60, 20
	r := newFixture(t, forgeriesOf(100_000, 100_000))
	for n := range sources - 1 {
		r.sources.list = append(r.sources.list, newSource("acme", fmt.Sprint("s", n)))
	}
	forge := func(body string) {
		for _, source := range r.sources.list {
			for range each {
				req := forgery(body)
				req.URL.Path = ingest.Path("acme", source.Slug)
				r.send(req)
			}
		}
	}
	s := &rejectionStore{err: errDown, during: func() { forge("during the write") }}
	forge("before it")
	r.record(t, s)
	s.err, s.during = nil, nil
	r.record(t, s)
	wantCount(t, "rejections", len(s.last), sources*each)
	for _, kept := range s.last {
		if !bytes.Equal(kept.BodySHA256, hashOf("during the write")) {
			t.Fatal("got a rejection from before the write, want only those that arrived during it")
		}
	}
}

// After a failed write, the buffer has the same limits.
func TestRestoredRejectionsAreBounded(t *testing.T) {
	r, s := newFixture(t, forgeriesOf(10_000, 10_000)), &rejectionStore{err: errDown}
	for n := range 40 {
		r.sources.list = append(r.sources.list, newSource("acme", fmt.Sprint("s", n)))
	}
	for range 6 {
		for _, source := range r.sources.list {
			for range 25 {
				req := forgery("")
				req.URL.Path = ingest.Path("acme", source.Slug)
				r.send(req)
			}
		}
		r.record(t, s)
	}
	s.err = nil
	r.record(t, s)
	perSource := map[eventhook.SourceID]int{}
	for _, kept := range s.last {
		perSource[kept.SourceID]++
	}
	for _, source := range r.sources.list {
		wantCount(t, "rejections of a source", perSource[source.ID], 20)
		wantSame(t, "counts", s.countsOf(source.ID), map[string]int64{"mismatch": 150})
	}
}

func TestRejectionsAreWrittenEverySecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, s := newFixture(t), &rejectionStore{}
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = r.handler.RecordRejections(ctx, s)
		}()
		for want := range 3 {
			r.send(forgery(""))
			wantCount(t, "written before the second is over", len(s.written()), want)
			time.Sleep(time.Second)
			synctest.Wait()
			wantCount(t, "written after the second", len(s.written()), want+1)
		}
		time.Sleep(time.Minute)
		wantCount(t, "writes", s.tries(), 3)
		r.send(forgery(""))
		stop()
		<-done
		wantCount(t, "written at the end", len(s.written()), 4)
	})
}

// A hanging database delays a stop only until the timeout.
func TestAHangingStoreTimesOutAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, s := newFixture(t), &rejectionStore{hangs: true}
		r.send(forgery(""))
		began := time.Now()
		r.record(t, s)
		if took := time.Since(began); took != 5*time.Second {
			t.Errorf("gave up after %s, want 5s", took)
		}
		s.hangs = false
		r.record(t, s)
		wantCount(t, "rejections after the store has recovered", len(s.last), 1)
	})
}

func TestRejectionsCanBeAddedDuringAWrite(t *testing.T) {
	const senders, each = 8, 50
	r, s := newFixture(t, forgeriesOf(100_000, 100_000)), &rejectionStore{}
	var all sync.WaitGroup
	for range senders {
		all.Go(func() {
			for n := range each {
				r.send(forgery(""))
				if n%10 == 0 {
					r.record(t, s)
				}
			}
		})
	}
	all.Wait()
	r.record(t, s)
	wantSame(t, "counts", s.countsOf(r.crm()), map[string]int64{"mismatch": senders * each})
}

func TestHeaderNamesAreBounded(t *testing.T) {
	r, s := newFixture(t), &rejectionStore{}
	req := forgery("")
	cut, longer := strings.Repeat("L", 99), strings.Repeat("M", 100)
	req.Header = http.Header{"A\x00B\xff": {"x"}, cut + "é": {"x"}, longer: {"x"}, strings.Repeat("N", 5000) + "é": {"x"}}
	want := []string{`A\x00B\xff`, cut, longer, strings.Repeat("N", 100)}
	for n := range 1000 {
		name := fmt.Sprintf("X-%04d", n)
		req.Header[name] = []string{"x"}
		if len(want) < 64 {
			want = append(want, name)
		}
	}
	r.send(req)
	r.record(t, s)
	if len(s.last) != 1 {
		t.Fatalf("got %d rejections, want one", len(s.last))
	}
	wantSame(t, "names", s.last[0].HeaderNames, want)
}
