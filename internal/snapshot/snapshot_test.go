package snapshot_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/panics"
	"github.com/eventhook/eventhook/internal/snapshot"
)

var errDown = errors.New("the database is down")

// store is the fake database behind a cache: values by key, and how often each was read.
// Tests change it only while no load runs, or while all loads wait at the gate.
type store struct {
	mu     sync.Mutex
	values map[string]int
	down   error
	reads  map[string]int
	gate   chan struct{} // nil: open
}

func newStore() *store { return &store{values: map[string]int{}, reads: map[string]int{}} }

// load reads the value first and then waits, like a slow response.
func (s *store) load(ctx context.Context, key string) (int, error) {
	s.mu.Lock()
	s.reads[key]++
	v, ok := s.values[key]
	down, gate := s.down, s.gate
	s.mu.Unlock()
	if gate != nil {
		select {
		case <-gate:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
	switch {
	case down != nil:
		return 0, down
	case !ok:
		return 0, eventhook.NotFound("source")
	}
	return v, nil
}

func (s *store) cache(size int, maxAge time.Duration) *snapshot.Cache[string, int] {
	return snapshot.New(size, maxAge, time.Now, s.load)
}

func wantValue(t *testing.T, c *snapshot.Cache[string, int], key string, want int) {
	t.Helper()
	if got, err := c.Get(t.Context(), key); got != want || err != nil {
		t.Errorf("Get(%q): got %d, %v; want %d", key, got, err, want)
	}
}

func wantAbsent(t *testing.T, c *snapshot.Cache[string, int], key string) {
	t.Helper()
	if got, err := c.Get(t.Context(), key); got != 0 || !errors.Is(err, eventhook.ErrNotFound) {
		t.Errorf("Get(%q): got %d, %v; want not found", key, got, err)
	}
}

func wantReads(t *testing.T, s *store, key string, want int) {
	t.Helper()
	if got := s.reads[key]; got != want {
		t.Errorf("reads of %q: got %d, want %d", key, got, want)
	}
}

func TestACachedValueIsNotLoadedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		s.values["a"] = 1
		c := s.cache(10, time.Minute)
		for range 3 {
			wantValue(t, c, "a", 1)
			wantAbsent(t, c, "b")
		}
		wantReads(t, s, "a", 1)
		wantReads(t, s, "b", 1)
	})
}

func TestAValueBeyondItsMaximumAgeIsLoadedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		s.values["a"] = 1
		c := s.cache(10, time.Minute)
		wantValue(t, c, "a", 1)
		wantAbsent(t, c, "b")
		s.values["a"], s.values["b"] = 2, 3
		time.Sleep(time.Minute - time.Nanosecond)
		wantValue(t, c, "a", 1)
		wantAbsent(t, c, "b")
		time.Sleep(time.Nanosecond)
		wantValue(t, c, "a", 2)
		wantValue(t, c, "b", 3)
		delete(s.values, "a")
		time.Sleep(time.Minute)
		wantAbsent(t, c, "a")
		wantReads(t, s, "a", 3)
	})
}

func TestAnOldValueIsUsedWhenALoadFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		s.values["a"] = 1
		c := s.cache(10, time.Minute)
		wantValue(t, c, "a", 1)
		time.Sleep(time.Hour)
		s.down = errDown
		wantValue(t, c, "a", 1)
		if _, err := c.Get(t.Context(), "b"); !errors.Is(err, errDown) {
			t.Errorf("a key without a cached value: got %v, want %v", err, errDown)
		}
		s.down = nil
		s.values["a"], s.values["b"] = 2, 3
		wantValue(t, c, "b", 3)
		wantValue(t, c, "a", 1) // not every Get retries the load
		time.Sleep(time.Second)
		wantValue(t, c, "a", 2)
	})
}

func TestADeletedValueIsNotUsedWhenALoadFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		s.values["a"] = 1
		c := s.cache(10, time.Minute)
		wantValue(t, c, "a", 1)
		time.Sleep(time.Minute)
		delete(s.values, "a")
		wantAbsent(t, c, "a")
		time.Sleep(time.Minute)
		s.down = errDown
		if got, err := c.Get(t.Context(), "a"); !errors.Is(err, errDown) {
			t.Errorf("got %d, %v; want %v", got, err, errDown)
		}
	})
}

func TestAnInvalidatedValueIsNotUsedWhenALoadFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		s.values["a"] = 1
		c := s.cache(10, time.Minute)
		wantValue(t, c, "a", 1)
		c.Invalidate("a")
		s.down = errDown
		if got, err := c.Get(t.Context(), "a"); !errors.Is(err, errDown) {
			t.Errorf("got %d, %v; want %v", got, err, errDown)
		}
	})
}

func TestInvalidate(t *testing.T) {
	for _, c := range []struct {
		claim      string
		invalidate func(*snapshot.Cache[string, int])
		want       string // keys that are loaded again
	}{
		{"one key", func(c *snapshot.Cache[string, int]) { c.Invalidate("a") }, "a"},
		{"one absent key", func(c *snapshot.Cache[string, int]) { c.Invalidate("x") }, "x"},
		{"keys that match", func(c *snapshot.Cache[string, int]) { c.InvalidateFunc(func(k string) bool { return k != "b" }) }, "axy"},
		{"none", func(c *snapshot.Cache[string, int]) { c.InvalidateFunc(func(string) bool { return false }) }, ""},
		{"all", (*snapshot.Cache[string, int]).Clear, "abxy"},
	} {
		t.Run(c.claim, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStore()
				s.values["a"], s.values["b"] = 1, 2
				cache := s.cache(10, time.Minute)
				read := func() {
					for _, key := range []string{"a", "b", "x", "y"} {
						_, _ = cache.Get(t.Context(), key)
					}
				}
				read()
				clear(s.reads)
				c.invalidate(cache)
				read()
				var got string
				for _, key := range []string{"a", "b", "x", "y"} {
					if s.reads[key] > 0 {
						got += key
					}
				}
				if got != c.want {
					t.Errorf("loaded again: got %q, want %q", got, c.want)
				}
			})
		})
	}
}

func TestValuesAndAbsentKeysAreBoundedSeparately(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		for i := range 5 {
			s.values[fmt.Sprint("v", i)] = i
		}
		c := s.cache(3, time.Minute)
		for i := 2; i < 5; i++ {
			wantValue(t, c, fmt.Sprint("v", i), i)
		}
		for i := range 100 {
			wantAbsent(t, c, fmt.Sprint("made up ", i))
		}
		for i := 2; i < 5; i++ {
			wantValue(t, c, fmt.Sprint("v", i), i)
			wantReads(t, s, fmt.Sprint("v", i), 1)
		}
		wantAbsent(t, c, "made up 0")
		wantReads(t, s, "made up 0", 2)
		wantAbsent(t, c, "made up 99")
		wantReads(t, s, "made up 99", 1)
		wantValue(t, c, "v0", 0) // evicts v2, the least recently used
		wantValue(t, c, "v4", 4)
		wantReads(t, s, "v4", 1)
		wantValue(t, c, "v2", 2)
		wantReads(t, s, "v2", 2)
	})
}

func TestIsKnownLoadsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		s.values["a"] = 1
		c := s.cache(10, time.Minute)
		want := func(claim string, a, b bool) {
			t.Helper()
			if gotA, gotB := c.IsKnown("a"), c.IsKnown("b"); gotA != a || gotB != b {
				t.Errorf("%s: IsKnown: existing key %t, want %t; absent key %t, want %t", claim, gotA, a, gotB, b)
			}
		}
		want("at first", false, false)
		wantValue(t, c, "a", 1)
		wantAbsent(t, c, "b")
		want("after both were loaded", true, true)
		time.Sleep(time.Hour)
		want("when both are too old", true, false)
		c.Clear()
		want("after Clear", false, false)
		wantReads(t, s, "a", 1)
		wantReads(t, s, "b", 1)
	})
}

func TestTheCacheIsBoundedByWeight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		s.values = map[string]int{"a": 3, "b": 4, "c": 3, "heavy": 50, "d": 1, "e": -7}
		c := snapshot.NewWeighed(10, func(v int) int { return v }, time.Minute, time.Now, s.load)
		for _, step := range []struct {
			key    string
			cached []string
		}{
			{"a", []string{"a"}}, {"b", []string{"a", "b"}}, {"c", []string{"a", "b", "c"}},
			{"d", []string{"b", "c", "d"}}, {"e", []string{"b", "c", "d", "e"}},
			{"heavy", []string{"heavy"}}, {"a", []string{"a"}}, {"b", []string{"a", "b"}},
		} {
			wantValue(t, c, step.key, s.values[step.key])
			for key := range s.values {
				if got, want := c.IsKnown(key), slices.Contains(step.cached, key); got != want {
					t.Errorf("after %q: IsKnown(%q): got %t, want %t", step.key, key, got, want)
				}
			}
		}
		// The weight of an invalidated or replaced value no longer counts.
		c.Invalidate("a")
		time.Sleep(time.Minute)
		s.values["b"] = 7
		wantValue(t, c, "b", 7)
		wantValue(t, c, "c", 3)
		if !c.IsKnown("b") || !c.IsKnown("c") {
			t.Error("b or c was evicted, want both cached: they weigh 10 together")
		}
	})
}

func TestAPanicOfALoadIsAnErrorOfItsKey(t *testing.T) {
	c := snapshot.New(10, time.Hour, time.Now, func(_ context.Context, key string) (string, error) {
		if key == "poison" {
			panic("a defect")
		}
		return key, nil
	})
	before := panics.Total(panics.Load)
	if _, err := c.Get(t.Context(), "poison"); err == nil || errors.Is(err, eventhook.ErrNotFound) || strings.Contains(err.Error(), "a defect") {
		t.Errorf("a load that panics returns %v, want an error of the gateway without the value of the panic", err)
	}
	if n := panics.Total(panics.Load) - before; n != 1 {
		t.Errorf("counted %d panics, want 1", n)
	}
	if got, err := c.Get(t.Context(), "good"); got != "good" || err != nil {
		t.Errorf("another key is %q, %v", got, err)
	}
}
