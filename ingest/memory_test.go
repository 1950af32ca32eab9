package ingest_test

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/ingest"
)

const tooMuch = "The gateway is overloaded; send it again later."

// slowBody returns a body whose n bytes are available at once and whose end follows when the
// channel is closed.
func slowBody(n int, end <-chan struct{}) io.ReadCloser {
	waiting := readerFunc(func([]byte) (int, error) { <-end; return 0, io.EOF })
	return io.NopCloser(io.MultiReader(strings.NewReader(strings.Repeat("x", n)), waiting))
}

// slowly sends n unsigned webhooks to acme/<slug>, each from another address. Each uses size
// bytes until end is closed.
func (r *fixture) slowly(slug string, n, size int, end <-chan struct{}) {
	for i := range n {
		req := from(fmt.Sprintf("198.51.%s.%d:1", strconv.Itoa(len(slug)), i), webhook(""))
		req.URL.Path, req.Body, req.ContentLength = ingest.Path("acme", slug), slowBody(size, end), -1
		go r.send(req)
	}
	synctest.Wait()
}

func inFlight(n int64) func(*ingest.Config) {
	return func(c *ingest.Config) { c.InFlightBytes = n }
}

func largeBodies(s *eventhook.Source) { s.MaxBodyBytes = 4 << 20 }

func TestInFlightBytesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFixture(t, open, largeBodies, inFlight(16<<20))
		for _, slug := range []string{"shop", "store"} {
			s := newSource("acme", slug)
			open(&s)
			largeBodies(&s)
			r.sources.list = append(r.sources.list, s)
		}
		end := make(chan struct{})
		r.slowly("crm", 1, 3<<20, end)
		r.slowly("shop", 1, 3<<20, end)
		large := chunked(webhook(strings.Repeat("x", 4<<20)))
		large.URL.Path = ingest.Path("acme", "store")
		w := r.send(large)
		wantProblem(t, w, http.StatusServiceUnavailable, tooMuch)
		wantHeader(t, w, "Retry-After", "1")
		wantCount(t, "shed", r.observer.outcomes[ingest.OutcomeShed], 1)
		r.wantStored(t, 0)
		close(end)
		synctest.Wait()
		r.wantStored(t, 2)
		r.wantStatus(t, webhook(strings.Repeat("x", 4<<20)), http.StatusOK)
	})
}

// Slow senders to one source use up only the memory share of that source.
func TestSlowSendersToOneSourceDoNotShedAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFixture(t, inFlight(32<<20))
		r.sources.list = append(r.sources.list, newSource("acme", "shop"))
		end := make(chan struct{})
		r.slowly("shop", 100, 1<<20-1, end)
		if shed := r.observer.outcomes[ingest.OutcomeShed]; shed < 90 {
			t.Errorf("%d of 100 slow requests of a megabyte were shed, want all but the share's 8", shed)
		}
		r.wantStatus(t, webhook(strings.Repeat("x", 1<<20)), http.StatusOK)
		close(end)
		synctest.Wait()
	})
}

// A request releases its memory, however it ends.
func TestMemoryIsReleased(t *testing.T) {
	r := newFixture(t, inFlight(5<<19), limit(1_000_000, 1_000_000, 1_000_000), forgeriesOf(1, 1))
	large := strings.Repeat("x", 1<<20)
	for _, c := range []struct {
		r    func() *http.Request
		want int
	}{
		{func() *http.Request { return webhook(large) }, 200},
		{func() *http.Request { return chunked(webhook(large)) }, 200},
		{func() *http.Request { return forgery(large) }, 401},
		{func() *http.Request { return forgery(large) }, 429},
		{func() *http.Request { return chunked(webhook(large + "x")) }, 413},
		{func() *http.Request { return truncated(webhook("")) }, 400},
	} {
		for range 10 {
			if got := r.send(c.r()).Code; got != c.want && got != http.StatusTooManyRequests {
				t.Errorf("answered %d, want %d", got, c.want)
			}
		}
	}
	r.store.set(func(s *store) { s.err = errDown })
	for range 10 {
		r.wantStatus(t, webhook(large), http.StatusInternalServerError)
	}
}

// An announced length reserves no memory.
func TestAContentLengthReservesNoMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFixture(t, inFlight(64<<20), limit(10_000, 10_000, 10_000))
		end := make(chan struct{})
		for range 500 {
			req := webhook("")
			req.Body, req.ContentLength = slowBody(1, end), 1<<20
			go r.send(req)
		}
		synctest.Wait()
		r.wantStatus(t, webhook(strings.Repeat("x", 1<<20)), http.StatusOK)
		close(end)
		synctest.Wait()
	})
}

func TestAFullQueueSheds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFixture(t, func(c *ingest.Config) { c.Writers, c.QueueEvents = 1, 3 })
		gate := make(chan struct{})
		r.store.set(func(s *store) { s.gate = gate })
		for range 4 { // one is being committed, three are queued
			go r.wantStatus(t, webhook(""), http.StatusOK)
			synctest.Wait()
		}
		w := r.send(webhook(""))
		wantProblem(t, w, http.StatusServiceUnavailable, tooMuch)
		wantHeader(t, w, "Retry-After", "1")
		close(gate)
		synctest.Wait()
		r.wantStored(t, 4)
	})
}

func TestAStoppedInstanceSheds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newBatcherFixture(t)
		f.stop()
		synctest.Wait()
		err := f.batcher.Accept(event("x"))
		if e, ok := err.(*eventhook.Error); !ok || e.Kind != eventhook.KindUnavailable || e.RetryAfter != time.Second {
			t.Errorf("got %v, want KindUnavailable with a retry after 1s", err)
		}
	})
}
