package outbound_test

import (
	"slices"
	"testing"
	"time"

	"github.com/eventhook/eventhook"
)

// longest returns the longest reported delay, and the number of reported delays.
func (i *instance) longest() (time.Duration, int) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if len(i.delays) == 0 {
		return 0, 0
	}
	return slices.Max(i.delays), len(i.delays)
}

func TestDelaysOfReceiversAreNoDelaysOfTheGateway(t *testing.T) {
	for _, c := range []struct {
		claim  string
		takes  time.Duration
		answer func() eventhook.Attempt
		change func(*eventhook.Subscription)
	}{
		{"it refuses", 0, refused, nil},
		{"it is slow", 20 * time.Second, nil, nil},
		{"it asks to wait", time.Millisecond, respondsWithRetryAfter(429, 40*time.Second), nil},
		{"it allows one per second", time.Millisecond, nil, func(s *eventhook.Subscription) { s.RatePerSecond = 1 }},
	} {
		t.Run(c.claim, func(t *testing.T) {
			runDispatcherTest(t, func(t *testing.T, w *dispatcherHarness) {
				change := func(*eventhook.Subscription) {}
				if c.change != nil {
					change = c.change
				}
				s := w.subscribe(newTenant(), c.takes, c.answer, change)
				w.backlog(s, 500)
				i := w.start()
				w.advance(3 * time.Minute)
				w.setResponse(s, time.Millisecond, nil)
				w.advance(time.Minute)
				if longest, n := i.longest(); n < 15 || longest > 1500*time.Millisecond {
					t.Errorf("got %d delays up to %s, want at least 15 below the interval of polls", n, longest)
				}
			})
		})
	}
}

func TestAnInstanceThatCannotClaimDelaysDeliveries(t *testing.T) {
	runDispatcherTest(t, func(t *testing.T, w *dispatcherHarness) {
		s := w.subscribe(newTenant(), time.Millisecond, nil)
		i := w.start()
		w.set(func(q *deliveryQueue) { q.isDown = true })
		w.backlog(s, 10)
		w.advance(time.Minute)
		w.set(func(q *deliveryQueue) { q.isDown = false })
		w.advance(10 * time.Second)
		w.want(s, "after the outage of the database", statuses{success: 10})
		if longest, n := i.longest(); n != 10 || longest < time.Minute {
			t.Errorf("got %d delays up to %s, want 10 of at least a minute", n, longest)
		}
	})
}

func TestTheTimeBeforeAResumeIsNoDelay(t *testing.T) {
	runDispatcherTest(t, func(t *testing.T, w *dispatcherHarness) {
		s := w.subscribe(newTenant(), time.Millisecond, nil, func(s *eventhook.Subscription) { s.Status = eventhook.SubscriptionPaused })
		w.backlog(s, 10)
		i := w.start()
		w.advance(time.Hour)
		s = w.update(s, func(s *eventhook.Subscription) { s.Status, s.UpdatedAt = eventhook.SubscriptionActive, time.Now() })
		i.TenantChanged(s.TenantID)
		w.advance(10 * time.Second)
		w.want(s, "after the resume", statuses{success: 10})
		if longest, n := i.longest(); n != 10 || longest > 1500*time.Millisecond {
			t.Errorf("got %d delays up to %s, want 10 below the interval of polls", n, longest)
		}
	})
}
