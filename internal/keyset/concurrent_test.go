package keyset_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/keyset"
)

func TestCallersShareOneFetch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWeb()
		w.bodies[url], w.gate = jwks("a"), make(chan struct{})
		c := w.cache(10)
		var callers sync.WaitGroup
		for i := range 100 {
			callers.Go(func() { wantKeys(t, c, url, fmt.Sprint(i), "a") })
			callers.Go(func() { wantKeys(t, c, url, "a", "a") })
		}
		synctest.Wait()
		close(w.gate)
		callers.Wait()
		wantFetches(t, w, url, 1)
	})
}

// A request for a known key does not wait for the fetch of an unknown key.
func TestUnknownKeyDelaysNoOtherRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWeb()
		w.bodies[url] = jwks("a")
		c := w.cache(10)
		wantKeys(t, c, url, "a", "a")
		time.Sleep(time.Minute)
		w.gate = make(chan struct{})
		w.bodies[url] = jwks("a", "b")
		var callers sync.WaitGroup
		for range 10 {
			callers.Go(func() { wantKeys(t, c, url, "b", "a b") })
		}
		synctest.Wait()
		wantKeys(t, c, url, "a", "a")
		close(w.gate)
		callers.Wait()
		wantFetches(t, w, url, 2)
	})
}

func TestCanceledCallerDoesNotCancelFetch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWeb()
		w.bodies[url], w.gate = jwks("a"), make(chan struct{})
		c := w.cache(10)
		ctx, cancel := context.WithCancel(t.Context())
		var callers sync.WaitGroup
		callers.Go(func() {
			if keys, err := c.Keys(ctx, url, "a"); !errors.Is(err, context.Canceled) {
				t.Errorf("the canceled caller: got %v, %v; want %v", keys, err, context.Canceled)
			}
		})
		synctest.Wait()
		callers.Go(func() { wantKeys(t, c, url, "a", "a") })
		cancel()
		synctest.Wait()
		close(w.gate)
		callers.Wait()
		wantFetches(t, w, url, 1)
	})
}

func TestFetchTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWeb()
		w.gate = make(chan struct{})
		c := w.cache(10)
		began := time.Now()
		wantError(t, c, url, "", context.DeadlineExceeded)
		if got := time.Since(began); got != 10*time.Second {
			t.Errorf("took %s, want 10s", got)
		}
		wantError(t, c, url, "", context.DeadlineExceeded)
		if got := time.Since(began); got != 10*time.Second {
			t.Errorf("the second call: took %s, want no more than 10s", got)
		}
	})
}

func page(i int) string { return fmt.Sprintf("https://slow.example/%d", i) }

// server returns the URL of a document on its own host.
func server(i int) string { return fmt.Sprintf("https://slow-%d.example/", i) }

func TestRunningFetchesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWeb()
		w.gate = make(chan struct{})
		c := w.cache(100)
		for i := range 50 {
			w.bodies[page(i)] = jwks("a")
		}
		var callers sync.WaitGroup
		for i := range 50 {
			callers.Go(func() { wantKeys(t, c, page(i), "a", "a") })
		}
		synctest.Wait()
		if len(w.fetches) != 8 {
			t.Errorf("fetches before the first ended: got %d, want 8", len(w.fetches))
		}
		close(w.gate)
		callers.Wait()
		if w.maxRunning != 8 || len(w.fetches) != 50 {
			t.Errorf("got %d fetches, %d at a time; want 50, 8 at a time", len(w.fetches), w.maxRunning)
		}
	})
}

// A timeout in the queue is not a failure of the document: its cached keys are used,
// and it is fetched as soon as there is capacity.
func TestQueueTimeoutIsNotCached(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWeb()
		w.bodies[url], w.bodies["https://new.example"] = jwks("old"), jwks("new")
		c := w.cache(1000)
		wantKeys(t, c, url, "old", "old")
		time.Sleep(2 * time.Hour)
		w.gate = make(chan struct{})
		var flood sync.WaitGroup
		for i := range 250 {
			flood.Go(func() { _, _ = c.Keys(t.Context(), server(i), "") })
		}
		synctest.Wait()
		began := time.Now()
		flood.Go(func() { wantKeys(t, c, url, "old", "old") })
		flood.Go(func() { wantBusy(t, c, "https://new.example") })
		flood.Wait()
		if got := time.Since(began); got > 20*time.Second {
			t.Errorf("took %s, want at most 20s", got)
		}
		w.gate = nil
		w.bodies[url] = jwks("renewed")
		wantKeys(t, c, "https://new.example", "new", "new")
		wantKeys(t, c, url, "old", "renewed")
	})
}

func TestFloodOfURLsIsRefusedImmediately(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWeb()
		w.bodies[url] = jwks("a")
		c := w.cache(1000)
		wantKeys(t, c, url, "a", "a")
		time.Sleep(time.Hour)
		w.gate = make(chan struct{})
		var flood sync.WaitGroup
		for i := range 1024 {
			flood.Go(func() { _, _ = c.Keys(t.Context(), page(i), "") })
		}
		synctest.Wait()
		began := time.Now()
		wantBusy(t, c, page(1024))
		wantKeys(t, c, url, "a", "a")
		if got := time.Since(began); got != 0 {
			t.Errorf("took %s, want no time", got)
		}
		flood.Wait()
	})
}

func wantBusy(t *testing.T, c *keyset.Cache, url string) {
	t.Helper()
	_, err := c.Keys(t.Context(), url, "")
	e, ok := errors.AsType[*eventhook.Error](err)
	if !ok || e.Message != "too many keys are being fetched" || e.Kind != eventhook.KindUnavailable {
		t.Errorf("%s: got %v, want the error that too many keys are being fetched", url, err)
	}
}

func TestConcurrentKeys(t *testing.T) {
	w := newWeb()
	for i := range 5 {
		w.bodies[page(i)] = jwks("a", "b")
	}
	c := w.cache(4)
	var callers sync.WaitGroup
	for worker := range 8 {
		callers.Go(func() {
			for i := range 300 {
				n := (worker + i) % 7
				keys, err := c.Keys(t.Context(), page(n), "a")
				if n < 5 && (err != nil || len(keys) != 2) || n >= 5 && err == nil {
					t.Errorf("page %d: got %d keys, %v", n, len(keys), err)
				}
			}
		})
	}
	callers.Wait()
}
