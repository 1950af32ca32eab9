package route_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/route"
)

func TestAFailedSettleIsRetried(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, b *harness) {
		b.set(func(q *queue) { q.refuse = errDown })
		b.run()
		b.handOver(1)
		b.pass(10 * time.Second)
		b.set(func(q *queue) { q.refuse = nil })
		b.pass(3 * time.Second)
		b.wantStatuses(states{eventhook.EventDelivered: 1})
		for i := 2; i < len(b.settles); i++ {
			before, after := b.settles[i-1].Sub(b.settles[i-2]), b.settles[i].Sub(b.settles[i-1])
			if after < before || after > 2*time.Second {
				t.Errorf("pause %d: got %s after %s, want it to grow to at most 2s", i, after, before)
			}
		}
		if got, most := len(b.settles), 15; got > most {
			t.Errorf("settles in 13 s: got %d, want at most %d", got, most)
		}
		b.wantLog("cannot settle a batch", "cannot plan a batch")
	}, newRoute("r", "", "ok"))
}

func TestABatchThatCannotBePlannedIsRetried(t *testing.T) {
	inBubble(t, nil, func(_ *testing.T, b *harness) {
		routing := b.routing[eventhook.SourceID{}]
		b.routing[eventhook.SourceID{}] = func() ([]eventhook.Route, error) { return nil, errDown }
		b.run()
		b.handOver(1)
		b.pass(5 * time.Second)
		b.set(func(*queue) { b.routing[eventhook.SourceID{}] = routing })
		b.pass(3 * time.Second)
		b.wantStatuses(states{eventhook.EventDelivered: 1})
		b.wantLog("cannot plan a batch", "cannot settle a batch")
	}, newRoute("r", "", "ok"))
}

// wantLog checks that the log has one text and not the other.
func (b *harness) wantLog(has, hasNot string) {
	b.t.Helper()
	if log := b.log.String(); !strings.Contains(log, has) || strings.Contains(log, hasNot) {
		b.t.Errorf("got the log %s, want a line with %q and none with %q", log, has, hasNot)
	}
}

func TestAFailedSettleIsRetriedUntilTheLeaseExpires(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, b *harness) {
		b.set(func(q *queue) { q.refuse = errDown })
		b.run()
		b.handOver(1)
		began := time.Now()
		b.pass(lease / 2)
		if got := len(b.lostLeases); got != 0 {
			t.Errorf("before the lease expired: got %d calls of Settled, want 0", got)
		}
		b.pass(lease/2 + 3*time.Second)
		if got := b.settles[len(b.settles)-1].Sub(began); got < lease-2*time.Second {
			t.Errorf("the last attempt: got %s after the start, want nearly the lease of %s", got, lease)
		}
		if !strings.Contains(b.log.String(), "leases of a batch expired") {
			t.Errorf("got the log %s, want a line about the expired leases", b.log.String())
		}
		b.set(func(q *queue) { q.refuse = nil })
		b.pass(2 * lease)
		b.wantStatuses(states{eventhook.EventDelivered: 1})
		if got, want := b.rows[b.order[0]].Lease.Token, int64(1); got <= want {
			t.Errorf("token: got %d, want more than %d: it was claimed again", got, want)
		}
	}, newRoute("r", "", "ok"))
}

func TestALostLeaseIsReportedAndNothingIsWritten(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, b *harness) {
		b.Reserve(2)
		mine, theirs := b.add("push", lease), b.add("push", lease)
		b.set(func(q *queue) { q.rows[theirs.ID].Lease.Token++ })
		b.Put([]*eventhook.Event{mine, theirs})
		b.run()
		b.stop()
		b.wantStatuses(states{eventhook.EventDelivered: 1, eventhook.EventProcessing: 1})
		if len(b.lostLeases) != 1 || b.lostLeases[0] != 1 || !strings.Contains(b.log.String(), theirs.ID.String()) {
			t.Errorf("got %v lost and the log %s, want one lost lease, and the event in the log", b.lostLeases, b.log.String())
		}
		if b.settled != 1 {
			t.Errorf("%d events were reported as settled, want 1", b.settled)
		}
	}, newRoute("r", "", "ok"))
}

func TestASourceThatCannotBeReadDoesNotDelayOthers(t *testing.T) {
	inBubble(t, func(c *route.Config) { c.Workers, c.BatchSize = 1, 10 }, func(t *testing.T, b *harness) {
		broken := eventhook.SourceID{1}
		b.routing[broken] = func() ([]eventhook.Route, error) { return nil, errDown }
		b.Reserve(4)
		var list []*eventhook.Event
		for i := range 4 {
			e := b.add("push", lease)
			if i%2 == 0 {
				e.SourceID = broken
				b.rows[e.ID].SourceID = broken
			}
			list = append(list, e)
		}
		b.Put(list)
		b.run()
		b.wantStatuses(states{eventhook.EventDelivered: 2, eventhook.EventPending: 2})
		if got, want := b.reads, 2; got != want {
			t.Errorf("reads of two sources: got %d, want %d", got, want)
		}
		b.handOver(1)
		synctest.Wait()
		b.wantStatuses(states{eventhook.EventDelivered: 3, eventhook.EventPending: 2})
		b.set(func(*queue) { b.routing[broken] = b.routing[eventhook.SourceID{}] })
		b.pass(lease + 2*time.Second)
		b.wantStatuses(states{eventhook.EventDelivered: 5})
	}, newRoute("r", "", "ok"))
}

func TestStop(t *testing.T) {
	for _, c := range []struct {
		claim    string
		disturb  func(*queue)
		drain    time.Duration
		took     time.Duration
		want     states
		released int
	}{
		{"events in memory are settled", nil, 5 * time.Second, 0, states{eventhook.EventDelivered: 20}, 0},
		{"events that cannot be settled are released after the drain timeout", func(q *queue) { q.refuse = errDown }, 5 * time.Second, 5 * time.Second, states{eventhook.EventPending: 20}, 20},
		{"events whose settle hangs are released after the drain timeout", func(q *queue) { q.gate = make(chan struct{}) }, 5 * time.Second, 5 * time.Second, states{eventhook.EventPending: 20}, 20},
		{"without a drain timeout all events are released", func(q *queue) { q.gate = make(chan struct{}) }, 0, 0, states{eventhook.EventPending: 20}, 20},
	} {
		t.Run(c.claim, func(t *testing.T) {
			inBubble(t, func(config *route.Config) { config.DrainTimeout = c.drain }, func(t *testing.T, b *harness) {
				if c.disturb != nil {
					b.set(c.disturb)
				}
				b.handOver(20)
				b.run()
				began := time.Now()
				b.stop()
				if got := time.Since(began); got != c.took {
					t.Errorf("took %s, want %s", got, c.took)
				}
				b.wantStatuses(c.want)
				if b.released != c.released {
					t.Errorf("released: got %d, want %d", b.released, c.released)
				}
				if got := b.Reserve(1); got != 0 {
					t.Errorf("Reserve afterwards: got %d, want 0", got)
				}
			}, newRoute("r", "", "ok"))
		})
	}
}

func TestAStopDuringASettleWaitsForIt(t *testing.T) {
	inBubble(t, nil, func(_ *testing.T, b *harness) {
		gate := make(chan struct{})
		b.set(func(q *queue) { q.gate = gate })
		b.handOver(20)
		b.run()
		time.AfterFunc(3*time.Second, func() { close(gate) })
		b.stop()
		b.wantStatuses(states{eventhook.EventDelivered: 20})
	}, newRoute("r", "", "ok"))
}

func TestEventsClaimedDuringAStopAreReleased(t *testing.T) {
	inBubble(t, nil, func(_ *testing.T, b *harness) {
		b.add("push", 0)
		b.set(func(q *queue) { q.answers = time.Second })
		b.run()
		b.stop()
		b.wantStatuses(states{eventhook.EventPending: 1})
	}, newRoute("r", "", "ok"))
}

func TestNothingIsClaimedAfterAStop(t *testing.T) {
	inBubble(t, nil, func(_ *testing.T, b *harness) {
		gate := make(chan struct{})
		b.set(func(q *queue) { q.gate = gate })
		b.handOver(1)
		b.run()
		time.AfterFunc(3*time.Second, func() {
			b.add("push", 0)
			close(gate)
		})
		b.stop()
		b.wantStatuses(states{eventhook.EventDelivered: 1, eventhook.EventPending: 1})
	}, newRoute("r", "", "ok"))
}
