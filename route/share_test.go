package route_test

import (
	"strings"
	"testing"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/route"
)

// slow returns a route whose target takes 3 s.
func slow() eventhook.Route {
	r := newRoute("slow", "", "takes 3 s")
	r.Filter = []byte(`{"body.id":7}`)
	return r
}

func TestATenantsShareRefillsWithTime(t *testing.T) {
	inBubble(t, largeQueue, func(t *testing.T, b *harness) {
		fakeScripts(b)
		b.run()
		b.handOverOf(200, slowTenant, 1, scripted("100ms"))
		b.pass(12 * time.Second)
		// The burst of 4 s and half of the time passed, less the steps that must be left for an event.
		if got := b.delivered(slowTenant); got < 80 || got > 4*10+12*5 {
			t.Errorf("got %d events of 100 ms delivered in 12 s, want 80 to 100", got)
		}
		b.handOverOf(1, quickTenant, 2, scripted("100ms"))
		b.pass(500 * time.Millisecond)
		if got := b.delivered(quickTenant); got != 1 {
			t.Errorf("got %d events of another tenant delivered, want 1 at once", got)
		}
		if got := b.statuses(); got[eventhook.EventPending] == 0 || b.released == 0 {
			t.Errorf("got %v, want the postponed events released", got)
		}
		b.pass(5 * time.Minute)
		b.wantStatuses(states{eventhook.EventDelivered: 201})
		b.set(func(q *queue) {
			for _, r := range q.rows {
				if r.LostLeases > 0 || r.RetryCount > 0 {
					t.Fatalf("an event lost %d leases and was retried %d times, want 0: it was only postponed", r.LostLeases, r.RetryCount)
				}
			}
		})
		if !strings.Contains(b.log.String(), "shares of time for filters and transforms are used up") {
			t.Errorf("got the log %s, want a line about the used-up share", b.log.String())
		}
	})
}

func TestChangedRoutesDoNotRefillTheShare(t *testing.T) {
	inBubble(t, largeQueue, func(t *testing.T, b *harness) {
		fakeScripts(b)
		b.run()
		b.handOverOf(200, slowTenant, 1, scripted("100ms"))
		for range 12 {
			b.pass(time.Second)
			b.InvalidateAll()
		}
		if got := b.delivered(slowTenant); got > 4*10+12*5 {
			t.Errorf("got %d events of 100 ms delivered in 12 s, want at most 100", got)
		}
	})
}

// lost sets the number of lost leases of all events.
func (b *harness) lost(times int) {
	b.set(func(q *queue) {
		for _, r := range q.rows {
			r.LostLeases, r.due = times-1, time.Now() // the next claim counts one more
		}
	})
}

func TestAnEventThatLosesManyLeasesFails(t *testing.T) {
	for _, c := range []struct {
		lost int
		want states
	}{
		{10, states{eventhook.EventDelivered: 1}}, // unrelated restarts
		{11, states{eventhook.EventFailed: 1}},
	} {
		inBubble(t, nil, func(t *testing.T, b *harness) {
			b.add("push", lease)
			b.lost(c.lost)
			b.run()
			b.pass(time.Second)
			b.wantStatuses(c.want)
			if c.lost <= 10 {
				return
			}
			b.set(func(q *queue) {
				for _, r := range q.rows {
					if !strings.Contains(r.LastError, "was leased 11 times in a row without a result") {
						t.Errorf("got the reason %q, want the number of leases", r.LastError)
					}
				}
			})
			b.pass(10 * time.Second) // until its first retry
			b.wantStatuses(states{eventhook.EventDelivered: 1})
		}, newRoute("r", "", "ok"))
	}
}

func TestAnEventWithLostLeasesAndNoRetriesIsDead(t *testing.T) {
	inBubble(t, nil, func(_ *testing.T, b *harness) {
		e := b.add("push", lease)
		b.set(func(q *queue) { q.rows[e.ID].RetryCount = 3 })
		b.lost(11)
		b.run()
		b.pass(time.Second)
		b.wantStatuses(states{eventhook.EventDead: 1})
	}, newRoute("r", "", "ok"))
}

func TestNoMoreScriptsAreRunForAnEventThatTakesTooLong(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, _ *harness) {
		late := newRoute("late", "", "a")
		late.FilterFunction = "const filter = () => true"
		a := compile(slow(), late).Settle(nil, newEvent("push"), nil, noon).Actions[1]
		if !strings.Contains(a.Failure, "took longer than 2s for this event") || a.Permanent {
			t.Errorf("got %q, permanent %t; want a script that was not run, and a transient failure", a.Failure, a.Permanent)
		}
	})
}

func TestRoutesWithoutFiltersUseNoShare(t *testing.T) {
	inBubble(t, nil, func(_ *testing.T, b *harness) {
		b.run()
		for range 3 {
			b.handOver(1)
			b.pass(3 * time.Second)
		}
		b.wantStatuses(states{eventhook.EventDelivered: 3}) // only filters and transforms count
	}, newRoute("r", "", "takes 3 s"))
}

func TestPlannedEventsAreSettledBeforeTheirLeaseExpires(t *testing.T) {
	inBubble(t, func(c *route.Config) { c.Workers, c.BatchSize = 1, 20 }, func(_ *testing.T, b *harness) {
		b.handOver(20)
		b.run()
		b.pass(10 * time.Second)
		b.wantStatuses(states{eventhook.EventDelivered: 3, eventhook.EventProcessing: 17})
		b.pass(55 * time.Second) // the other events follow without waiting for a lease to expire
		b.wantStatuses(states{eventhook.EventDelivered: 20})
	}, newRoute("r", "", "takes 3 s"))
}
