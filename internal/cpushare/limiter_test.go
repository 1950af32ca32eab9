package cpushare_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/cpushare"
	"github.com/eventhook/eventhook/internal/meter"
)

var acme, other = eventhook.TenantID{1}, eventhook.TenantID{2}

// config refills 50 000 000 steps each second, and holds 100 000 000.
var config = cpushare.Config{Processors: 0.5, Burst: time.Second, Tenants: 10}

// counts counts outcomes.
type counts struct {
	mu sync.Mutex
	of map[cpushare.Outcome]int
}

func (c *counts) Evaluated(_ cpushare.Place, o cpushare.Outcome) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.of == nil {
		c.of = map[cpushare.Outcome]int{}
	}
	c.of[o]++
}

// work uses a number of steps, or fewer if the meter stops.
func work(steps int) func(*meter.Meter) {
	return func(m *meter.Meter) {
		for range steps / 1000 {
			if m.Use(1000) != nil {
				return
			}
		}
	}
}

func TestAShareRefillsWithTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := cpushare.New(config, nil, time.Now)
		share := all.Bucket(acme)
		if !share.Take(100_000_000) || share.Take(1) {
			t.Fatal("want a full share of exactly 100 000 000 steps")
		}
		if !all.Bucket(other).Take(100_000_000) {
			t.Error("want another tenant's share to be full")
		}
		for _, c := range []struct {
			after time.Duration
			steps int
		}{{20 * time.Nanosecond, 1}, {time.Second, 50_000_000}, {time.Hour, 100_000_000}} {
			time.Sleep(c.after)
			if !share.Take(c.steps) || share.Take(1) {
				t.Errorf("after %s: want exactly %d steps", c.after, c.steps)
			}
		}
		share.Return(1000)
		if !all.Bucket(acme).Take(1000) {
			t.Error("want the returned steps")
		}
	})
}

func TestManySmallRefillsAddUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		share := cpushare.New(cpushare.Config{Processors: 0.3, Burst: time.Second, Tenants: 1}, nil, time.Now).Bucket(acme)
		share.Take(100_000_000)
		for range 10_000 {
			time.Sleep(7 * time.Nanosecond)
			share.Take(5000) // refused
		}
		if share.Take(2105) || !share.Take(2095) {
			t.Error("want about 2100 steps after 10 000 × 7 ns at 0.03 a nanosecond")
		}
	})
}

func TestASlowEvaluationIsNeverStoppedForLackOfSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		share := cpushare.New(config, nil, time.Now).Bucket(acme)
		share.Take(100_000_000 - meter.EventLimit)
		lent, wait := share.BeginSlow()
		if lent == nil || wait != 0 {
			t.Fatalf("got %v after %s, want the share", lent, wait)
		}
		if !share.Take(meter.EventLimit) || !lent.Take(meter.EventLimit) {
			t.Error("want steps for the running evaluation although the share is used up")
		}
		if again, wait := share.BeginSlow(); again != nil || wait.Round(time.Millisecond) != 800*time.Millisecond {
			t.Errorf("got %v and a wait of %s, want 800ms: the overdraft and one event", again, wait)
		}
	})
}

func TestRetriesOfPostponedEventsAreSpreadOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		share := cpushare.New(config, nil, time.Now).Bucket(acme)
		share.Take(100_000_000)
		for range 100 {
			share.RecordSlow(meter.EventLimit)
		}
		began := time.Now()
		for n := 1; n <= 1400; n++ {
			at := share.NextRetry().Sub(began)
			if want := time.Duration(n) * 400 * time.Millisecond; (at - want).Abs() > time.Millisecond {
				t.Fatalf("event %d: after %s, want %s", n, at, want)
			}
		}
		for range 10_000 {
			if at := share.NextRetry().Sub(began); at > 10*time.Minute || at < 4*time.Minute {
				t.Fatalf("large backlog: got a retry after %s, want 5 to 10 minutes", at)
			}
		}
	})
}

func TestAQuickEvaluationRunsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c counts
		all := cpushare.New(config, &c, time.Now)
		runs := 0
		if err := all.Evaluate(t.Context(), acme, cpushare.Tests, func(m *meter.Meter) { runs++; work(meter.Slice)(m) }); err != nil || runs != 1 {
			t.Errorf("got %v after %d runs, want one", err, runs)
		}
		if err := all.Evaluate(t.Context(), acme, cpushare.Tests, func(m *meter.Meter) { runs++; work(meter.Slice + 1000)(m) }); err != nil || runs != 3 {
			t.Errorf("got %v after %d runs, want two more", err, runs)
		}
		err := all.Evaluate(t.Context(), acme, cpushare.Tests, work(meter.EventLimit+1000))
		if !errors.Is(err, meter.ErrLimit) {
			t.Errorf("beyond the limit: got %v, want ErrLimit", err)
		}
		if c.of[cpushare.Slow] != 2 || c.of[cpushare.OverLimit] != 1 {
			t.Errorf("counted %v, want 2 slow, 1 over the limit", c.of)
		}
	})
}

// TestATenantHasOneSlowEvaluationAtATime simulates 200 concurrent callers whose evaluations take
// the limit of one event each. The clock stands still while they work, so at first they get only
// the burst of the share.
func TestATenantHasOneSlowEvaluationAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c counts
		all := cpushare.New(config, &c, time.Now)
		var running, most, refused, done atomic.Int64
		var callers sync.WaitGroup
		for range 200 {
			callers.Go(func() {
				err := all.Evaluate(t.Context(), acme, cpushare.Subscriptions, func(m *meter.Meter) {
					if m.Use(meter.Slice+1) != nil {
						return
					}
					most.Store(max(most.Load(), running.Add(1)))
					time.Sleep(50 * time.Millisecond)
					work(meter.EventLimit - 2*meter.Slice)(m)
					running.Add(-1)
				})
				switch {
				case errors.Is(err, cpushare.ErrBusy):
					refused.Add(1)
				case err == nil:
					done.Add(1)
				}
			})
		}
		synctest.Wait()
		if got := refused.Load(); got != 200-64 {
			t.Errorf("refused at once: got %d, want 136: 64 callers may wait", got)
		}
		if err := all.Evaluate(t.Context(), other, cpushare.Subscriptions, work(1000)); err != nil {
			t.Errorf("another tenant: got %v", err)
		}
		callers.Wait()
		if most.Load() != 1 {
			t.Errorf("got %d concurrent evaluations, want 1", most.Load())
		}
		// 5 evaluations from the burst, and one every 0.4 s while callers wait for 5 s.
		if got := done.Load(); got < 15 || got > 19 || got+refused.Load() != 200 {
			t.Errorf("got %d done and %d refused, want 15 to 19 done and the rest refused", got, refused.Load())
		}
		if got := int64(c.of[cpushare.Refused]); got != refused.Load() {
			t.Errorf("counted %d refusals, want %d", got, refused.Load())
		}
	})
}

func TestAnEvaluationEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := cpushare.New(config, nil, time.Now)
		ctx, cancel := context.WithCancel(t.Context())
		steps := 0
		err := all.Evaluate(ctx, acme, cpushare.Tests, func(m *meter.Meter) {
			steps = 0
			for m.Use(1000) == nil {
				if steps += 1000; steps == 5*meter.Slice {
					cancel()
				}
			}
		})
		if !errors.Is(err, context.Canceled) || steps > 7*meter.Slice {
			t.Errorf("got %v after %d steps, want context.Canceled within a slice", err, steps)
		}
		for all.Bucket(acme).Take(1000) {
			continue
		}
		ctx, cancel = context.WithCancel(t.Context())
		ended := make(chan error)
		for range 2 { // one waits for steps, the other for the slow path
			go func() { ended <- all.Evaluate(ctx, acme, cpushare.Tests, work(1000)) }()
		}
		synctest.Wait()
		cancel()
		for range 2 {
			if err := <-ended; !errors.Is(err, context.Canceled) {
				t.Errorf("got %v, want context.Canceled", err)
			}
		}
	})
}

func TestConfigIsValidated(t *testing.T) {
	if f := cpushare.DefaultConfig().Validate(); len(f) != 0 {
		t.Errorf("the default: got %v", f)
	}
	if f := (cpushare.Config{}).Validate(); len(f) != 3 {
		t.Errorf("zeros: got %v, want three faults", f)
	}
}
