package ingest_test

import (
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/ingest"
)

// upload is a request whose body the test sends in pieces.
type upload struct {
	*httptest.ResponseRecorder
	body     *io.PipeWriter
	read     *io.PipeReader
	answered chan struct{}
}

// SetReadDeadline ends a pending Read of the body, like the connection of a server.
func (u *upload) SetReadDeadline(time.Time) error {
	return u.read.CloseWithError(os.ErrDeadlineExceeded)
}

func (u *upload) send(n int) { _, _ = io.WriteString(u.body, strings.Repeat("x", n)) }

// status returns the response status, or 0 before the response.
func (u *upload) status() int {
	select {
	case <-u.answered:
		return u.Code
	default:
		return 0
	}
}

// upload starts a request to acme/<slug> with the announced length and sends the first bytes
// of its body.
func (r *fixture) upload(slug, client string, announced, sent int) *upload {
	u := &upload{ResponseRecorder: httptest.NewRecorder(), answered: make(chan struct{})}
	u.read, u.body = io.Pipe()
	req := from(client+":1", webhook(""))
	req.URL.Path, req.Body, req.ContentLength = ingest.Path("acme", slug), u.read, int64(announced)
	go func() {
		defer close(u.answered)
		r.router.ServeHTTP(u, req)
		_ = u.read.Close() // like a server
	}()
	synctest.Wait()
	u.send(sent)
	synctest.Wait()
	return u
}

// finish ends the bodies, so that no goroutine leaks.
func finish(uploads []*upload) {
	for _, u := range uploads {
		_ = u.body.Close()
	}
	synctest.Wait()
}

// addSources adds unsigned sources s0, s1, …, each of another tenant.
func (r *fixture) addSources(n int) {
	for i := range n {
		s := newSource("acme", fmt.Sprintf("s%d", i))
		open(&s)
		limit(1_000_000, 1_000_000, 1_000_000)(&s)
		r.sources.list = append(r.sources.list, s)
	}
}

func small(slug, client string) *http.Request {
	req := from(client+":1", webhook(`{"id":1}`))
	req.URL.Path = ingest.Path("acme", slug)
	return req
}

// An attack at a sixteenth of its original size: senders announce a megabyte and stall just
// after the buffer has doubled, and further senders fill the remaining memory. The webhooks to other
// sources are still accepted.
func TestStalledSendersDoNotShedTheWebhooksOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFixture(t, inFlight(16<<20))
		r.addSources(12)
		var stalled []*upload
		for i := range 290 {
			slug, client := fmt.Sprintf("s%d", i%5), fmt.Sprintf("198.51.100.%d", i%250)
			stalled = append(stalled, r.upload(slug, client, 1<<20, 34<<10))
		}
		for i := range 500 { // fill the remaining memory
			stalled = append(stalled, r.upload(fmt.Sprintf("s%d", i%5), fmt.Sprintf("203.0.113.%d", i%250), 70<<10, 1))
		}
		for i := range 210 {
			req := small(fmt.Sprintf("s%d", 5+i%7), fmt.Sprintf("192.0.2.%d", i%200))
			req.Body, req.ContentLength = io.NopCloser(strings.NewReader(strings.Repeat("x", 40<<10))), 40<<10
			r.wantStatus(t, req, http.StatusOK)
		}
		r.clock.Advance(2 * time.Second)
		for i := range 7 {
			large := small(fmt.Sprintf("s%d", 5+i), "192.0.2.1")
			large.Body, large.ContentLength = io.NopCloser(strings.NewReader(strings.Repeat("x", 1<<20))), 1<<20
			r.wantStatus(t, large, http.StatusOK)
		}
		finish(stalled)
		if used := r.handler.HeldBytes(); used != 0 {
			t.Errorf("after all requests %d bytes are used, want 0", used)
		}
	})
}

// A sender that stalls after any byte uses little more memory than it has sent.
func TestAStalledSenderUsesTheMemoryThatItSent(t *testing.T) {
	for _, sent := range []int{1, 18 << 10, 35 << 10, 69 << 10, 137 << 10, 273 << 10, 545 << 10} {
		synctest.Test(t, func(t *testing.T) {
			r := newFixture(t, open)
			u := r.upload("crm", "198.51.100.1", 1<<20, sent)
			const before = 20 << 10 // the first buffer
			if used, limit := r.handler.HeldBytes(), min(2*sent, sent+64<<10)+before; used < sent || used > limit {
				t.Errorf("after %d bytes sent %d are used, want at most %d", sent, used, limit)
			}
			finish([]*upload{u})
		})
	}
}

// When the memory is full, the request whose last progress is the longest ago is evicted, not
// the one that arrived first.
func TestTheSlowestIsEvictedFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFixture(t, inFlight(8<<20)) // all large requests together can use 7 MiB
		r.addSources(10)
		var list []*upload
		for i := range 7 {
			list = append(list, r.upload(fmt.Sprintf("s%d", i), fmt.Sprintf("198.51.100.%d", i), 1<<20, 900<<10))
			r.clock.Advance(time.Second)
		}
		list[0].send(70 << 10) // makes progress
		synctest.Wait()
		next := func(i int) *upload {
			return r.upload(fmt.Sprintf("s%d", i), fmt.Sprintf("192.0.2.%d", i), 1<<20, 1000<<10)
		}
		fresh := next(7)
		want := func(step string, evicted ...int) {
			t.Helper()
			for i, u := range list {
				isEvicted := false
				for _, e := range evicted {
					isEvicted = isEvicted || e == i
				}
				if got := u.status() == http.StatusServiceUnavailable; got != isEvicted {
					t.Errorf("%s: request %d is evicted: %v, want %v", step, i, got, isEvicted)
				}
			}
		}
		want("one more", 1)
		wantHeader(t, list[1].ResponseRecorder, "Retry-After", "1")
		wantHeader(t, list[1].ResponseRecorder, "Connection", "close")
		wantCount(t, "evicted", r.observer.outcomes[ingest.OutcomeEvicted], 1)
		again := next(8)
		want("and another", 1, 2)
		finish(append(list, fresh, again))
		if used := r.handler.HeldBytes(); used != 0 {
			t.Errorf("after all requests %d bytes are used, want 0", used)
		}
	})
}

// Requests that make progress are not evicted; the new request is shed instead.
func TestARequestThatMakesProgressIsNotEvicted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFixture(t, inFlight(8<<20))
		r.addSources(8)
		var list []*upload
		for i := range 7 {
			list = append(list, r.upload(fmt.Sprintf("s%d", i), fmt.Sprintf("198.51.100.%d", i), 1<<20, 900<<10))
		}
		r.clock.Advance(time.Second / 2)
		late := r.upload("s7", "192.0.2.1", 1<<20, 0)
		_, _ = io.WriteString(late.body, strings.Repeat("x", 1000<<10))
		synctest.Wait()
		if got := late.status(); got != http.StatusServiceUnavailable {
			t.Errorf("the last request is answered %d, want 503", got)
		}
		wantCount(t, "evicted", r.observer.outcomes[ingest.OutcomeEvicted], 0)
		finish(append(list, late))
	})
}

// Each client, source and tenant has a memory share. A request that does not fit into a share is
// shed or evicts requests of that share only.
func TestMemoryShares(t *testing.T) {
	for _, c := range []struct {
		claim        string
		slug, client func(i int) string
		sameTenant   bool
		max          int // bytes
	}{
		{"a quarter for a client", func(i int) string { return fmt.Sprintf("s%d", i%8) }, func(int) string { return "198.51.100.1" }, false, 4 << 20},
		{"a quarter for an IPv6 network", func(i int) string { return fmt.Sprintf("s%d", i%8) }, func(i int) string { return fmt.Sprintf("[2001:db8::%d]", i+1) }, false, 4 << 20},
		{"a quarter for a source", func(int) string { return "s0" }, func(i int) string { return fmt.Sprintf("198.51.100.%d", i) }, false, 4 << 20},
		{"half for a tenant", func(i int) string { return fmt.Sprintf("s%d", i%8) }, func(i int) string { return fmt.Sprintf("198.51.100.%d", i) }, true, 8 << 20},
	} {
		t.Run(c.claim, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newFixture(t, inFlight(16<<20))
				r.addSources(9)
				if c.sameTenant {
					for i := range 9 {
						r.sources.list[i].TenantID = r.sources.list[1].TenantID
					}
				}
				victim := r.upload("s8", "192.0.2.7", 1<<20, 100<<10)
				if c.sameTenant {
					finish([]*upload{victim})
				}
				before := r.handler.HeldBytes()
				r.clock.Advance(time.Minute) // the victim is the slowest of all
				var list []*upload
				for i := range 30 {
					list = append(list, r.upload(c.slug(i), c.client(i), 1<<20, 500<<10))
				}
				if used := r.handler.HeldBytes() - before; used > c.max || used < c.max-(600<<10) {
					t.Errorf("%d bytes are used, want nearly %d", used, c.max)
				}
				if !c.sameTenant && victim.status() != 0 {
					t.Errorf("a request of another share was answered %d", victim.status())
				}
				finish(append(list, victim))
			})
		})
	}
}

// After five seconds a body must have an average rate of 1 KiB per second.
func TestABodyBelowTheMinimumRateIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFixture(t, open)
		slow, steady := r.upload("crm", "198.51.100.1", 100_000, 2000), r.upload("crm", "198.51.100.2", 100_000, 2000)
		for second := range 20 {
			if want := map[bool]int{false: 0, true: http.StatusBadRequest}[second > 6]; slow.status() != want {
				t.Errorf("after %d s the stalled body is answered %d, want %d", second, slow.status(), want)
			}
			r.clock.Advance(time.Second)
			steady.send(1024)
			time.Sleep(time.Second)
			synctest.Wait()
		}
		wantProblem(t, slow.ResponseRecorder, http.StatusBadRequest, "The request body arrived too slowly.")
		wantHeader(t, slow.ResponseRecorder, "Connection", "close")
		wantCount(t, "too slow", r.observer.outcomes[ingest.OutcomeTooSlow], 1)
		if steady.status() != 0 {
			t.Errorf("the steady body is answered %d", steady.status())
		}
		finish([]*upload{slow, steady})
	})
}

// The memory of the verifier is reserved before it is allocated.
func TestVerifierMemoryIsReservedFirst(t *testing.T) {
	fields := func(s *eventhook.Source) {
		largeBodies(s)
		s.Verifier = verifier(bodyHMAC)
	}
	body := `{"sig":"` + strings.Repeat("0", 64) + `","a":"` + strings.Repeat("x", 1<<20) + `"}`
	r := newFixture(t, fields, inFlight(3<<20)) // the body, and its copy while the chunks are joined
	wantProblem(t, r.send(webhook(body)), http.StatusServiceUnavailable, tooMuch)
	r = newFixture(t, fields, inFlight(6<<20))
	wantProblem(t, r.send(webhook(body)), http.StatusUnauthorized, unverified)
	if used := r.handler.HeldBytes(); used != 0 {
		t.Errorf("after the response %d bytes are used, want 0", used)
	}
}

// An eviction ends a pending read, with HTTP/1 and with HTTP/2.
func TestAnEvictionInterruptsARealConnection(t *testing.T) {
	for _, version := range []int{1, 2} {
		t.Run(fmt.Sprintf("HTTP/%d", version), func(t *testing.T) {
			r := newFixture(t, open, inFlight(1<<20))
			server := httptest.NewUnstartedServer(r.router)
			server.EnableHTTP2 = version == 2
			server.StartTLS()
			defer server.Close()
			client := server.Client()
			if version == 1 {
				client.Transport.(*http.Transport).TLSClientConfig.NextProtos = nil
				client.Transport.(*http.Transport).TLSNextProto = map[string]func(string, *tls.Conn) http.RoundTripper{}
			}
			read, write := io.Pipe()
			answers := make(chan *http.Response, 1)
			go func() {
				req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+ingest.Path("acme", "crm"), read)
				res, err := client.Do(req)
				if err != nil {
					t.Errorf("the slow request: %v", err)
					close(answers)
					return
				}
				answers <- res
			}()
			// Memory is allocated ahead of the bytes: when 200 KiB are used, at least 150 KiB
			// have arrived, and the remaining bytes complete no progress step of 64 KiB.
			_, _ = io.WriteString(write, strings.Repeat("x", 190<<10))
			for r.handler.HeldBytes() < 200<<10 {
				time.Sleep(time.Millisecond)
			}
			r.clock.Advance(2 * time.Second)
			large := webhook(strings.Repeat("x", 200<<10))
			r.wantStatus(t, large, http.StatusOK)
			res := <-answers
			if res == nil {
				return
			}
			defer func() { _ = res.Body.Close(); _ = write.Close() }()
			if res.StatusCode != http.StatusServiceUnavailable || res.ProtoMajor != version || res.Header.Get("Retry-After") != "1" {
				t.Errorf("answered %s %d %v, want 503 with Retry-After", res.Proto, res.StatusCode, res.Header)
			}
			wantCount(t, "evicted", r.observer.outcomes[ingest.OutcomeEvicted], 1)
		})
	}
}
