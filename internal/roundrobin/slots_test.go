package roundrobin_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eventhook/eventhook/internal/roundrobin"
)

const timeout = 5 * time.Second

func TestSlotsGoToKeysInRoundRobin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slots := roundrobin.NewSlots[string](1, 1, 100)
		must(t, slots.Acquire(t.Context(), "busy", timeout))
		var mu sync.Mutex
		var order []string
		var callers sync.WaitGroup
		wait := func(key string) {
			callers.Go(func() {
				if err := slots.Acquire(t.Context(), key, timeout); err != nil {
					t.Errorf("%s: %v", key, err)
					return
				}
				mu.Lock()
				order = append(order, key)
				mu.Unlock()
				slots.Release(key)
			})
			synctest.Wait()
		}
		for range 4 {
			wait("busy")
		}
		wait("second")
		wait("second")
		wait("third")
		slots.Release("busy")
		callers.Wait()
		want := []string{"busy", "second", "third", "busy", "second", "busy", "busy"}
		if !slices.Equal(order, want) {
			t.Errorf("slots went to %v, want %v", order, want)
		}
	})
}

func TestAKeyCannotUseAllSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slots := roundrobin.NewSlots[string](4, 2, 100)
		for range 2 {
			must(t, slots.Acquire(t.Context(), "busy", timeout))
		}
		third := make(chan error, 1)
		go func() { third <- slots.Acquire(t.Context(), "busy", timeout) }()
		synctest.Wait()
		select {
		case err := <-third:
			t.Fatalf("third Acquire of one key returned %v, want it to wait", err)
		default:
		}
		before := time.Now()
		must(t, slots.Acquire(t.Context(), "other", timeout))
		if waited := time.Since(before); waited != 0 {
			t.Errorf("another key waited %v, want 0", waited)
		}
		slots.Release("busy")
		must(t, <-third)
	})
}

func TestTheQueueOfAKeyIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slots := roundrobin.NewSlots[string](1, 1, 2)
		must(t, slots.Acquire(t.Context(), "k", timeout))
		ctx, cancel := context.WithCancel(t.Context())
		results := make(chan error, 2)
		for range 2 {
			go func() { results <- slots.Acquire(ctx, "k", timeout) }()
			synctest.Wait()
		}
		if err := slots.Acquire(t.Context(), "k", timeout); !errors.Is(err, roundrobin.ErrFull) {
			t.Errorf("with a full queue: got %v, want %v", err, roundrobin.ErrFull)
		}
		before := time.Now()
		if err := slots.Acquire(t.Context(), "other", timeout); !errors.Is(err, roundrobin.ErrTimeout) || time.Since(before) != timeout {
			t.Errorf("got %v after %v, want %v after %v", err, time.Since(before), roundrobin.ErrTimeout, timeout)
		}
		for range 2 {
			if err := <-results; !errors.Is(err, roundrobin.ErrTimeout) {
				t.Errorf("got %v, want %v", err, roundrobin.ErrTimeout)
			}
		}
		go func() { results <- slots.Acquire(ctx, "k", timeout) }()
		synctest.Wait()
		cancel()
		if err := <-results; !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled caller: got %v, want %v", err, context.Canceled)
		}
		slots.Release("k")
		for _, key := range []string{"k", "other"} { // all slots are free again
			must(t, slots.Acquire(t.Context(), key, timeout))
			slots.Release(key)
		}
	})
}

// TestNoSlotIsLostWhenACallerGivesUp releases slots at the same moment at which
// waiting callers time out.
func TestNoSlotIsLostWhenACallerGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slots := roundrobin.NewSlots[int](2, 1, 10)
		var callers sync.WaitGroup
		for i := range 200 {
			callers.Go(func() {
				if slots.Acquire(t.Context(), i%5, time.Duration(i%3)*time.Second) == nil {
					time.Sleep(time.Second)
					slots.Release(i % 5)
				}
			})
		}
		callers.Wait()
		for key := range 2 {
			must(t, slots.Acquire(t.Context(), key, 0))
		}
	})
}

func BenchmarkSlots(b *testing.B) {
	slots := roundrobin.NewSlots[[16]byte](16, 12, 100)
	b.ReportAllocs()
	for b.Loop() {
		_ = slots.Acquire(b.Context(), [16]byte{}, timeout)
		slots.Release([16]byte{})
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
