package snapshot_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/snapshot"
)

func wantPeek(t *testing.T, claim string, c *snapshot.Cache[string, int], key string, want int, wantErr error) {
	t.Helper()
	if got, err := c.Peek(key); got != want || !errors.Is(err, wantErr) {
		t.Errorf("%s: got %d, %v; want %d, %v", claim, got, err, want, wantErr)
	}
}

// In the synctest bubble a Peek that waited for a load would never return.
func TestPeekReturnsCachedResultsAndLoadsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		s.values["a"], s.gate = 1, make(chan struct{})
		c := s.cache(10, time.Minute)
		wantPeek(t, "never loaded", c, "a", 0, snapshot.ErrNotInMemory)
		wantReads(t, s, "a", 0)
		loaded := make(chan struct{})
		go func() {
			wantValue(t, c, "a", 1)
			wantAbsent(t, c, "none")
			close(loaded)
		}()
		synctest.Wait()
		wantPeek(t, "while it is being loaded", c, "a", 0, snapshot.ErrNotInMemory)
		close(s.gate)
		<-loaded
		wantPeek(t, "cached", c, "a", 1, nil)
		wantPeek(t, "cached as not found", c, "none", 0, eventhook.ErrNotFound)
		c.Invalidate("a")
		wantPeek(t, "invalidated", c, "a", 0, snapshot.ErrNotInMemory)
		wantValue(t, c, "a", 1)
		time.Sleep(time.Minute)
		wantPeek(t, "too old", c, "a", 0, snapshot.ErrNotInMemory)
		wantReads(t, s, "a", 2)
	})
}

// The invalidation of a key does not affect loads of other keys.
func TestInvalidatingAKeyKeepsTheLoadsOfOthers(t *testing.T) {
	for _, c := range []struct {
		claim      string
		invalidate func(*snapshot.Cache[string, int])
		reads      map[string]int
	}{
		{"one key", func(c *snapshot.Cache[string, int]) { c.Invalidate("a") }, map[string]int{"a": 2, "b": 1}},
		{"the keys that match", func(c *snapshot.Cache[string, int]) { c.InvalidateFunc(func(k string) bool { return k == "a" }) }, map[string]int{"a": 2, "b": 1}},
		{"all", (*snapshot.Cache[string, int]).Clear, map[string]int{"a": 2, "b": 2}},
	} {
		t.Run(c.claim, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStore()
				s.values["a"], s.values["b"], s.gate = 1, 2, make(chan struct{})
				cache := s.cache(10, time.Minute)
				for _, key := range []string{"a", "b"} {
					go func() { _, _ = cache.Get(t.Context(), key) }()
				}
				synctest.Wait()
				c.invalidate(cache)
				close(s.gate)
				synctest.Wait()
				wantValue(t, cache, "a", 1)
				wantValue(t, cache, "b", 2)
				for key, want := range c.reads {
					wantReads(t, s, key, want)
				}
			})
		})
	}
}

// Callers after an invalidation do not get the result of a load that began before it.
func TestCallersAfterAnInvalidationLoadAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		s.values["a"], s.gate = 1, make(chan struct{})
		c := s.cache(10, time.Minute)
		go func() { _, _ = c.Get(t.Context(), "a") }()
		synctest.Wait()
		c.Invalidate("a")
		s.mu.Lock()
		s.values["a"] = 2
		s.mu.Unlock()
		go func() { wantValue(t, c, "a", 2) }()
		synctest.Wait()
		close(s.gate)
		synctest.Wait()
		wantPeek(t, "at the end", c, "a", 2, nil)
		wantReads(t, s, "a", 2)
	})
}
