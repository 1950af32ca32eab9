package snapshot_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eventhook/eventhook/internal/snapshot"
)

func TestCallersShareOneLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		s.values["a"], s.gate = 1, make(chan struct{})
		c := s.cache(10, time.Minute)
		var callers sync.WaitGroup
		for range 100 {
			callers.Go(func() { wantValue(t, c, "a", 1) })
			callers.Go(func() { wantAbsent(t, c, "b") })
		}
		synctest.Wait()
		close(s.gate)
		callers.Wait()
		wantReads(t, s, "a", 1)
		wantReads(t, s, "b", 1)
	})
}

// A caller that found an old value but is slow to start a load uses the value that another
// caller has loaded meanwhile.
func TestAValueThatWasJustLoadedIsNotLoadedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		s.values["a"] = 1
		var meanwhile func()
		c := snapshot.New(10, time.Minute, func() time.Time {
			at := time.Now()
			if act := meanwhile; act != nil {
				meanwhile = nil
				act()
			}
			return at
		}, s.load)
		wantValue(t, c, "a", 1)
		time.Sleep(time.Minute)
		meanwhile = func() { wantValue(t, c, "a", 1) }
		wantValue(t, c, "a", 1)
		wantReads(t, s, "a", 2)
	})
}

func TestACancelledCallerDoesNotCancelTheLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		s.values["a"], s.gate = 1, make(chan struct{})
		c := s.cache(10, time.Minute)
		ctx, cancel := context.WithCancel(t.Context())
		var callers sync.WaitGroup
		callers.Go(func() {
			if got, err := c.Get(ctx, "a"); !errors.Is(err, context.Canceled) {
				t.Errorf("cancelled caller: got %d, %v; want %v", got, err, context.Canceled)
			}
		})
		synctest.Wait()
		callers.Go(func() { wantValue(t, c, "a", 1) })
		cancel()
		synctest.Wait()
		close(s.gate)
		callers.Wait()
		wantReads(t, s, "a", 1)
	})
}

func TestALoadThatHangsEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		s.gate = make(chan struct{})
		began := time.Now()
		if _, err := s.cache(10, time.Minute).Get(t.Context(), "a"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want %v", err, context.DeadlineExceeded)
		}
		if got, limit := time.Since(began), 10*time.Second; got > limit {
			t.Errorf("took %s, want at most %s", got, limit)
		}
	})
}

func TestALoadFromBeforeAnInvalidationIsNotStored(t *testing.T) {
	for _, c := range []struct {
		claim      string
		invalidate func(*snapshot.Cache[string, int])
	}{
		{"its key is invalidated", func(c *snapshot.Cache[string, int]) { c.Invalidate("a") }},
		{"its key matches", func(c *snapshot.Cache[string, int]) { c.InvalidateFunc(func(k string) bool { return k == "a" }) }},
		{"the cache is cleared", (*snapshot.Cache[string, int]).Clear},
	} {
		for _, old := range []string{"a value", "not found", "an error"} {
			t.Run(c.claim+", it loaded "+old, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := newStore()
					s.gate = make(chan struct{})
					switch old {
					case "a value":
						s.values["a"] = 1
					case "an error":
						s.down = errDown
					}
					cache := s.cache(10, time.Minute)
					var early, late sync.WaitGroup
					early.Go(func() { _, _ = cache.Get(t.Context(), "a") })
					synctest.Wait() // it has read, and the result is on its way
					s.values["a"], s.down = 2, nil
					c.invalidate(cache)
					slow := s.gate
					s.gate = nil
					late.Go(func() { wantValue(t, cache, "a", 2) })
					late.Wait()
					close(slow)
					early.Wait()
					wantValue(t, cache, "a", 2)
					wantReads(t, s, "a", 2)
				})
			})
		}
	}
}

func TestConcurrentUse(t *testing.T) {
	c := snapshot.New(4, time.Nanosecond, time.Now, func(_ context.Context, key int) (int, error) {
		if key%3 == 0 {
			return 0, errDown
		}
		return key * 10, nil
	})
	var callers sync.WaitGroup
	for worker := range 8 {
		callers.Go(func() {
			for i := range 500 {
				key := (worker + i) % 7
				if i%50 == 0 {
					c.Invalidate(key)
				}
				if i%100 == 0 {
					c.Clear()
				}
				if got, err := c.Get(t.Context(), key); err == nil && got != key*10 {
					t.Errorf("Get(%d): got %d, want %d", key, got, key*10)
				}
			}
		})
	}
	callers.Wait()
}
