package route_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/route"
)

type states = map[eventhook.EventStatus]int

func TestPutEventsAreProcessedAtOnce(t *testing.T) {
	inBubble(t, nil, func(_ *testing.T, b *harness) {
		b.run()
		b.handOver(10)
		synctest.Wait()
		b.wantStatuses(states{eventhook.EventDelivered: 10})
	}, newRoute("r", "", "ok"))
}

func TestAnEventWithoutMatchingRouteIsUnrouted(t *testing.T) {
	inBubble(t, nil, func(_ *testing.T, b *harness) {
		b.run()
		b.handOver(1)
		synctest.Wait()
		b.wantStatuses(states{eventhook.EventUnrouted: 1})
	}, newRoute("r", "pull", "ok"))
}

func TestTheQueueIsPolled(t *testing.T) {
	for _, c := range []struct {
		claim string
		add   func(*harness)
		after time.Duration
	}{
		{"at the start", func(b *harness) { b.add("push", 0); b.run() }, 0},
		{"at a wake-up", func(b *harness) { b.run(); b.add("push", 0) }, 0},
		{"without a wake-up, after the poll interval", func(b *harness) { b.run(); b.add("push", time.Nanosecond) }, time.Second},
		{"when the lease of another instance expires", func(b *harness) { b.run(); b.add("push", lease) }, lease + time.Second},
		{"for several batches without a pause", func(b *harness) {
			for range 50 {
				b.add("push", 0)
			}
			b.run()
		}, 0},
	} {
		t.Run(c.claim, func(t *testing.T) {
			inBubble(t, nil, func(_ *testing.T, b *harness) {
				c.add(b)
				b.pass(c.after)
				b.wantStatuses(states{eventhook.EventDelivered: len(b.order)})
			}, newRoute("r", "", "ok"))
		})
	}
}

func TestAnIdleProcessorClaimsOncePerInterval(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, b *harness) {
		b.run()
		b.pass(time.Minute)
		b.stop()
		if least, most := 55, 65; b.claims < least || b.claims > most {
			t.Errorf("claims in a minute at one a second: got %d, want %d to %d", b.claims, least, most)
		}
	})
}

func TestARetryRepeatsOnlyFailedActions(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, b *harness) {
		flaky := newRoute("r", "", "ok", "fails")
		routes := []eventhook.Route{flaky}
		b.routing[eventhook.SourceID{}] = func() ([]eventhook.Route, error) { return routes, nil }
		b.run()
		b.handOver(1)
		synctest.Wait()
		b.wantStatuses(states{eventhook.EventDead: 1})
		// The route is corrected and the event replayed.
		routes = []eventhook.Route{flaky}
		routes[0].Targets = slices.Clone(flaky.Targets)
		routes[0].Targets[1] = taskOf("corrected")
		b.InvalidateAll()
		id := b.order[0]
		b.set(func(q *queue) { q.rows[id].Status, q.rows[id].due = eventhook.EventPending, time.Now() })
		b.pass(time.Second)
		b.wantStatuses(states{eventhook.EventDelivered: 1})
		done := b.rows[id].done()
		if want := []int{0, 1}; !slices.Equal(done, want) {
			t.Errorf("targets done: got %v, want %v, each once", done, want)
		}
	})
}

func TestMemoryIsBounded(t *testing.T) {
	config := func(c *route.Config) { c.InboxEvents, c.InboxBytes = 10, 40 }
	inBubble(t, config, func(t *testing.T, b *harness) {
		b.set(func(q *queue) { q.gate = make(chan struct{}) })
		for range 100 {
			b.add("push", 0)
		}
		b.run()
		b.pass(10 * time.Second)
		// Two workers have up to four events each. The other events are in the inbox.
		if got, most := b.statuses()[eventhook.EventProcessing], 2*4+10; got > most {
			t.Errorf("leased: got %d, want at most %d", got, most)
		}
		if got := b.Reserve(100); got != 0 {
			t.Errorf("Reserve with a full inbox: got %d, want 0", got)
		}
		close(b.gate)
		b.pass(time.Minute)
		b.wantStatuses(states{eventhook.EventDelivered: 100})
		if got := b.Reserve(100); got != 10 {
			t.Errorf("Reserve with an empty inbox: got %d, want 10", got)
		}
	}, newRoute("r", "", "ok"))
}

func TestWithoutWorkersNothingIsClaimed(t *testing.T) {
	inBubble(t, func(c *route.Config) { c.Workers = 0 }, func(t *testing.T, b *harness) {
		b.add("push", 0)
		b.run()
		b.pass(time.Hour)
		b.wantStatuses(states{eventhook.EventPending: 1})
		if got := b.Reserve(1); got != 0 || b.claims != 0 {
			t.Errorf("got %d reserved and %d claims, want none", got, b.claims)
		}
	})
}

func TestChangedRoutesAreReadAgain(t *testing.T) {
	for _, c := range []struct {
		claim  string
		change func(*harness)
		reads  int
	}{
		{"not without a change", func(*harness) {}, 1},
		{"when the source is invalidated", func(b *harness) { b.InvalidateSource(eventhook.SourceID{}) }, 2},
		{"not when another source is invalidated", func(b *harness) { b.InvalidateSource(eventhook.SourceID{1}) }, 1},
		{"when all sources are invalidated", (*harness).InvalidateAll, 2},
		{"after 10 minutes without a notification", func(b *harness) { b.pass(10 * time.Minute) }, 2},
	} {
		t.Run(c.claim, func(t *testing.T) {
			inBubble(t, nil, func(t *testing.T, b *harness) {
				b.run()
				b.handOver(1)
				synctest.Wait()
				c.change(b)
				b.handOver(1)
				synctest.Wait()
				if b.reads != c.reads {
					t.Errorf("reads: got %d, want %d", b.reads, c.reads)
				}
			})
		})
	}
}

func TestATargetThatPanicsFailsOnlyItsAction(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, b *harness) {
		b.run()
		b.handOver(3)
		synctest.Wait()
		b.wantStatuses(states{eventhook.EventDead: 3})
		for _, r := range b.rows {
			if len(r.done()) != 1 || !strings.Contains(r.LastError, "unexpectedly") || strings.Contains(r.LastError, "nil pointer") {
				t.Errorf("got %d actions done, error %q; want 1, and an error without details", len(r.done()), r.LastError)
			}
			if log := b.log.String(); !strings.Contains(log, r.ID.String()) || !strings.Contains(log, "match_test.go") {
				t.Errorf("got the log %s, want the event %s and the place of the panic", log, r.ID)
			}
		}
	}, newRoute("r", "", "panics", "ok"))
}
