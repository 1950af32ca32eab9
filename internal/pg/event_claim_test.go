package pg

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/eventhook/eventhook"
)

func TestClaimEventsLeasesTheOldestDueEvents(t *testing.T) {
	f := setUp(t)
	var events []*eventhook.Event
	for i := range 5 {
		e := f.event(func(e *eventhook.Event) {
			e.Body = fmt.Appendf(nil, `{"n":%d}`, i)
			e.SourceIP, e.TraceID, e.RequestID, e.IdempotencyKey = "192.0.2.1", "t", "r", fmt.Sprint(i)
		})
		f.must(f.db.Accept(t.Context(), arrivals(e)))
		events = append(events, e)
		f.clock.Advance(time.Second)
	}
	later := f.event(f.withLease)
	f.must(f.db.Accept(t.Context(), arrivals(later)))

	claimed := f.claimEvents(f.db, 2)
	same(t, "claimed", len(claimed), 2)
	for i, e := range claimed {
		want := *events[i]
		want.Status, want.SourceSlug, want.Lease = eventhook.EventProcessing, "crm", eventhook.Lease{Token: 1, Until: f.clock.Now().Add(lease)}
		same(t, fmt.Sprintf("event %d", i), *e, want)
	}
	same(t, "other due events", len(f.claimEvents(f.db, 10)), 3)
	same(t, "claimed after that", len(f.claimEvents(f.db, 10)), 0)
}

func TestALeaseThatRanOutIsClaimedAgain(t *testing.T) {
	f := setUp(t)
	e := f.leasedEvents(1)[0]
	f.clock.Advance(lease - time.Second)
	same(t, "claimed under a lease", len(f.claimEvents(f.other, 1)), 0)
	f.clock.Advance(time.Second)
	again := f.claimEvents(f.other, 1)
	same(t, "claimed after it", len(again), 1)
	same(t, "token", again[0].Lease.Token, e.Lease.Token+1)
}

func TestAnEventIsNeverClaimedTwice(t *testing.T) {
	f := setUp(t)
	const n = 300
	var batch []*eventhook.Event
	for range n {
		batch = append(batch, f.event())
	}
	f.must(f.db.Accept(t.Context(), arrivals(batch...)))
	var mu sync.Mutex
	claims := map[eventhook.EventID]int{}
	claimer := func(db *DB) func() {
		return func() {
			for {
				list := f.claimEvents(db, 7)
				if len(list) > 7 {
					t.Errorf("claimed %d, want at most 7", len(list))
				}
				mu.Lock()
				for _, e := range list {
					claims[e.ID]++
				}
				all := len(claims) == n
				mu.Unlock()
				if all || len(list) == 0 {
					return
				}
			}
		}
	}
	concurrently(claimer(f.db), claimer(f.other), claimer(f.db), claimer(f.other))
	for _, e := range f.claimEvents(f.db, n) { // events that were locked for the other claims
		claims[e.ID]++
	}
	same(t, "claimed events", len(claims), n)
	for id, times := range claims {
		if times != 1 {
			t.Errorf("event %s was claimed %d times", id, times)
		}
	}
	same(t, "events with a lease token other than 1", f.count("event", "lease_token <> 1"), 0)
}

func TestReleaseEventsOnlyReleasesCurrentLeases(t *testing.T) {
	f := setUp(t)
	batch := f.leasedEvents(3)
	f.settle(f.db, f.plan(batch[2]))
	f.clock.Advance(lease)
	stolen := f.claimEvents(f.other, 1)[0]
	f.must(f.db.ReleaseEvents(t.Context(), batch))
	for _, e := range batch {
		want := eventhook.EventPending
		switch e.ID {
		case stolen.ID:
			want = eventhook.EventProcessing
		case batch[2].ID:
			want = eventhook.EventUnrouted
		}
		same(t, "status", f.storedEvent(e).Status, want)
	}
	same(t, "due at once", len(f.claimEvents(f.db, 10)), 1)
	f.settle(f.other, f.plan(stolen))
}

func TestAnEventPastItsRetentionIsClaimedWithoutABody(t *testing.T) {
	f := setUp(t)
	e := f.event()
	f.must(f.db.Accept(t.Context(), arrivals(e)))
	f.exec(`DELETE FROM eventhook.event_payload`)
	claimed := f.claimEvents(f.db, 1)
	same(t, "claimed", len(claimed), 1)
	same(t, "body", claimed[0].Body, []byte(nil))
}

func TestQueueAges(t *testing.T) {
	f := setUp(t)
	want := func(claim string, events, executions time.Duration) {
		t.Helper()
		got, err := ageEvent(t, f.db)
		f.must(err)
		same(t, claim+": events", got, events)
		got, err = ageExecution(t, f.db)
		f.must(err)
		same(t, claim+": executions", got, executions)
	}
	want("no row is due", 0, 0)
	f.must(f.db.Accept(t.Context(), arrivals(f.event())))
	f.clock.Advance(time.Minute)
	want("an event waits", time.Minute, 0)
	f.settle(f.db, f.plan(f.claimEvents(f.db, 1)[0], f.executionAction(eventhook.Task, "")))
	f.clock.Advance(time.Second)
	want("an execution waits", 0, time.Second)
	f.claimWork(f.db, f.query())
	want("it is leased", 0, 0)
}

func TestClaimEventsLimitsTheBytesOfBodies(t *testing.T) {
	f := setUp(t)
	const events = 5
	for range events {
		e := f.event(func(e *eventhook.Event) { e.BodySize = maxClaimBytes/2 + 1 })
		f.must(f.db.Accept(t.Context(), arrivals(e)))
	}
	var got []int
	for range events {
		claimed, err := f.db.ClaimEvents(t.Context(), 100, lease)
		f.must(err)
		got = append(got, len(claimed))
	}
	same(t, "events of each claim", got, []int{2, 2, 1, 0, 0})
}

func TestALeaseThatEndsWithoutAResultIsLost(t *testing.T) {
	f := setUp(t)
	e := f.leasedEvents(1)[0]
	claim := func(claim string, lost int) *eventhook.Event {
		t.Helper()
		f.clock.Advance(lease)
		list := f.claimEvents(f.db, 1)
		same(t, claim+": claimed", len(list), 1)
		same(t, claim+": leases lost", list[0].LostLeases, lost)
		return list[0]
	}
	claim("after the lease of the accept", 1)
	leased := claim("after another lost lease", 2)
	f.must(f.db.ReleaseEvents(t.Context(), []*eventhook.Event{leased}))
	leased = claim("after a release", 2)
	leased.NextRetryAt = new(f.clock.Now().Add(time.Hour))
	f.must(f.db.ReleaseEvents(t.Context(), []*eventhook.Event{leased}))
	f.clock.Advance(time.Hour - lease)
	same(t, "claimed before it is due", len(f.claimEvents(f.db, 1)), 0)
	leased = claim("after a release with a later due time", 2)
	s := f.plan(leased)
	s.Failure = "was leased too often"
	f.settle(f.db, s)
	same(t, "status", f.storedEvent(e).Status, eventhook.EventFailed)
	same(t, "last error", f.storedEvent(e).LastError, "was leased too often")
	claim("after an outcome", 0)
}
