package turns_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eventhook/eventhook/internal/turns"
)

const patience = 5 * time.Second

func TestAGateGivesSlotsToKeysInRotation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := turns.NewGate[string](1, 1, 100)
		must(t, gate.Enter(t.Context(), "loud", patience))
		var mu sync.Mutex
		var order []string
		var callers sync.WaitGroup
		wait := func(key string) {
			callers.Go(func() {
				if err := gate.Enter(t.Context(), key, patience); err != nil {
					t.Errorf("%s: %v", key, err)
					return
				}
				mu.Lock()
				order = append(order, key)
				mu.Unlock()
				gate.Leave(key)
			})
			synctest.Wait()
		}
		for range 4 {
			wait("loud")
		}
		wait("quiet")
		wait("quiet")
		wait("third")
		gate.Leave("loud")
		callers.Wait()
		want := []string{"loud", "quiet", "third", "loud", "quiet", "loud", "loud"}
		if !slices.Equal(order, want) {
			t.Errorf("slots went to %v, want %v", order, want)
		}
	})
}

func TestAKeyLeavesSlotsToOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := turns.NewGate[string](4, 2, 100)
		for range 2 {
			must(t, gate.Enter(t.Context(), "loud", patience))
		}
		third := make(chan error, 1)
		go func() { third <- gate.Enter(t.Context(), "loud", patience) }()
		synctest.Wait()
		select {
		case err := <-third:
			t.Fatalf("a third slot of one key: got %v, want it to wait", err)
		default:
		}
		before := time.Now()
		must(t, gate.Enter(t.Context(), "quiet", patience))
		if waited := time.Since(before); waited != 0 {
			t.Errorf("another key waited %v, want 0", waited)
		}
		gate.Leave("loud")
		must(t, <-third)
	})
}

func TestWaitingAtAGateIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := turns.NewGate[string](1, 1, 2)
		must(t, gate.Enter(t.Context(), "k", patience))
		ctx, cancel := context.WithCancel(t.Context())
		results := make(chan error, 2)
		for range 2 {
			go func() { results <- gate.Enter(ctx, "k", patience) }()
			synctest.Wait()
		}
		if err := gate.Enter(t.Context(), "k", patience); !errors.Is(err, turns.ErrFull) {
			t.Errorf("with a full queue: got %v, want %v", err, turns.ErrFull)
		}
		before := time.Now()
		if err := gate.Enter(t.Context(), "other", patience); !errors.Is(err, turns.ErrTooLong) || time.Since(before) != patience {
			t.Errorf("got %v after %v, want %v after %v", err, time.Since(before), turns.ErrTooLong, patience)
		}
		for range 2 {
			if err := <-results; !errors.Is(err, turns.ErrTooLong) {
				t.Errorf("got %v, want %v", err, turns.ErrTooLong)
			}
		}
		go func() { results <- gate.Enter(ctx, "k", patience) }()
		synctest.Wait()
		cancel()
		if err := <-results; !errors.Is(err, context.Canceled) {
			t.Errorf("of a caller that left: got %v, want %v", err, context.Canceled)
		}
		gate.Leave("k")
		for _, key := range []string{"k", "other"} { // nothing is lost, nothing is kept
			must(t, gate.Enter(t.Context(), key, patience))
			gate.Leave(key)
		}
	})
}

// TestNoSlotIsLostBetweenASlotAndAnEnd has slots come free at the very moment
// at which waiting callers give up.
func TestNoSlotIsLostBetweenASlotAndAnEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := turns.NewGate[int](2, 1, 10)
		var callers sync.WaitGroup
		for i := range 200 {
			callers.Go(func() {
				if gate.Enter(t.Context(), i%5, time.Duration(i%3)*time.Second) == nil {
					time.Sleep(time.Second)
					gate.Leave(i % 5)
				}
			})
		}
		callers.Wait()
		for key := range 2 {
			must(t, gate.Enter(t.Context(), key, 0))
		}
	})
}

func BenchmarkGate(b *testing.B) {
	gate := turns.NewGate[[16]byte](16, 12, 100)
	b.ReportAllocs()
	for b.Loop() {
		_ = gate.Enter(b.Context(), [16]byte{}, patience)
		gate.Leave([16]byte{})
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
