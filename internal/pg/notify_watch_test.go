package pg

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/eventhook/eventhook"
)

// watchRecorder records the updates of one watcher.
type watchRecorder struct {
	t       testing.TB
	updates chan eventhook.EventUpdates
}

// watch watches a tenant on db until the test ends.
func (f *fixture) watch(db *DB, tenant eventhook.TenantID) *watchRecorder {
	f.Helper()
	w := &watchRecorder{f, make(chan eventhook.EventUpdates, 100)}
	f.during(func(ctx context.Context) error {
		return db.WatchEvents(ctx, tenant, time.Hour, func(updates eventhook.EventUpdates) error {
			w.updates <- updates
			return nil
		})
	})
	same(f, "the first updates", next(f, w.updates), eventhook.EventUpdates{})
	return w
}

// during calls run in a goroutine and ends its context when the test ends.
func (f *fixture) during(run func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.Background())
	var loop sync.WaitGroup
	loop.Go(func() { _ = run(ctx) })
	f.Cleanup(func() {
		cancel()
		loop.Wait()
	})
}

func (f *fixture) pushing(db *DB) {
	f.during(func(ctx context.Context) error { return db.PushEvents(ctx, time.Millisecond) })
}

func (f *fixture) telling(db *DB) {
	f.during(func(ctx context.Context) error { return db.SendNotifications(ctx, time.Millisecond) })
}

// until reads updates until one has the event in a state, and returns that event.
func (w *watchRecorder) until(e *eventhook.Event, status eventhook.EventStatus) eventhook.Event {
	w.t.Helper()
	for {
		for _, told := range next(w.t, w.updates).Events {
			if told.ID == e.ID && told.Status == status {
				return told
			}
		}
	}
}

func TestWatchersSeeLocalChanges(t *testing.T) {
	f := setUp(t)
	f.pushing(f.db)
	w := f.watch(f.db, f.tenant)
	e := f.leasedEvents(1)[0]
	same(t, "received", w.until(e, eventhook.EventProcessing), f.storedEvent(e))
	f.settle(f.db, f.plan(e))
	same(t, "received then", w.until(e, eventhook.EventUnrouted), f.storedEvent(e))
	f.reprocess(f.db, eventhook.EventSelection{IDs: ids(e)})
	same(t, "received after that", w.until(e, eventhook.EventPending), f.storedEvent(e))
	first := f.endedEvent(eventhook.EventDelivered, withKey("k"))
	again := f.event(withKey("k"))
	f.must(f.db.Accept(t.Context(), arrivals(again)))
	same(t, "a duplicate", w.until(again, eventhook.EventDuplicate).DuplicateOf, first.ID)
}

func TestWatchersSeeChangesOfOtherInstances(t *testing.T) {
	f := setUp(t)
	for _, db := range []*DB{f.db, f.other} {
		f.listening(db)
		f.telling(db)
		f.pushing(db)
	}
	w := f.watch(f.db, f.tenant)
	for late := time.After(patient); f.other.feed.isUnwatched(); runtime.Gosched() {
		select {
		case <-late:
			t.Fatal("the other instance receives no announcement")
		default:
		}
	}
	e := f.event(f.withLease)
	f.must(f.other.Accept(t.Context(), arrivals(e)))
	same(t, "received", w.until(e, eventhook.EventProcessing), f.storedEvent(e))
	f.settle(f.other, f.plan(e))
	same(t, "received then", w.until(e, eventhook.EventUnrouted), f.storedEvent(e))
}

func TestWatchersSeeOnlyTheirTenant(t *testing.T) {
	f := setUp(t)
	f.pushing(f.db)
	umbrella := f.secondTenant()
	foreign, own := f.watch(f.db, umbrella), f.watch(f.db, f.tenant)
	e := f.leasedEvents(1)[0]
	own.until(e, eventhook.EventProcessing)
	theirs := f.event(f.withLease, func(e *eventhook.Event) { e.TenantID, e.SourceID = umbrella, eventhook.NewID[eventhook.Source](noon) })
	f.must(f.db.Accept(t.Context(), arrivals(theirs)))
	updates := next(t, foreign.updates)
	same(t, "events received", len(updates.Events), 1)
	same(t, "the one", updates.Events[0].ID, theirs.ID)
}

func TestWatchEventsReturnsTheErrorOfSend(t *testing.T) {
	f := setUp(t)
	errSend := errors.New("the connection is closed")
	err := f.db.WatchEvents(t.Context(), f.tenant, time.Hour, func(eventhook.EventUpdates) error { return errSend })
	same(t, "the error of send", errors.Is(err, errSend), true)
	same(t, "the feed is unwatched", f.db.feed.isUnwatched(), true)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	f.must(f.db.WatchEvents(ended, f.tenant, time.Hour, func(eventhook.EventUpdates) error { return nil }))
}

func TestIdleWatchersReceiveEmptyUpdates(t *testing.T) {
	f := setUp(t)
	n := 0
	errSend := errors.New("the connection is closed")
	_ = f.db.WatchEvents(t.Context(), f.tenant, time.Millisecond, func(updates eventhook.EventUpdates) error {
		same(t, "updates", updates, eventhook.EventUpdates{})
		if n++; n == 3 {
			return errSend
		}
		return nil
	})
}

func TestUnreadableEventsAreReportedAsMissed(t *testing.T) {
	f := setUp(t)
	w := f.watch(f.db, f.tenant)
	f.leasedEvents(1)
	f.db.lists.Close()
	f.db.pushEvents(t.Context())
	same(t, "received", next(t, w.updates), eventhook.EventUpdates{Missed: true})
}

// The tests below need no database: they check the bounds of an eventFeed.

func newEventIDs(n int) []eventhook.EventID {
	list := make([]eventhook.EventID, n)
	for i := range list {
		list[i] = eventhook.NewID[eventhook.Event](noon)
	}
	return list
}

func newTestFeed() (*eventFeed, eventhook.TenantID) {
	return newEventFeed(&hub{topics: map[string]chan struct{}{}, outgoing: make(chan struct{}, 1)}), eventhook.NewID[eventhook.Tenant](noon)
}

func TestChangesOfUnwatchedTenantsAreIgnored(t *testing.T) {
	w, tenant := newTestFeed()
	w.eventsChanged(noon, tenant, newEventIDs(10)...)
	same(t, "to read", len(w.takePending()), 0)
	same(t, "notices", len(w.takeNotices()), 0)
	w.addRemote(tenant, noon.Add(watchTTL))
	w.eventsChanged(noon.Add(watchTTL), tenant, newEventIDs(10)...)
	same(t, "notices for an expired announcement", len(w.takeNotices()), 0)
	w.expire(noon.Add(watchTTL))
	same(t, "the feed is unwatched", w.isUnwatched(), true)
}

func TestTheFeedIsBounded(t *testing.T) {
	w, tenant := newTestFeed()
	l := w.subscribe(tenant)
	w.addRemote(tenant, noon.Add(watchTTL))
	changed := newEventIDs(maxPending + 1)
	w.eventsChanged(noon, tenant, changed[:maxPending]...)
	w.eventsChanged(noon, tenant, changed[0]) // again
	pending := w.takePending()[tenant]
	same(t, "to read", len(pending.ids), maxPending)
	same(t, "missed", pending.missed, false)
	w.eventsChanged(noon, tenant, changed...)
	pending = w.takePending()[tenant]
	same(t, "pending events of one event too many", len(pending.ids), maxPending)
	same(t, "missed after one event too many", pending.missed, true)

	notices := w.takeNotices()
	same(t, "notices", len(notices), maxOutgoing/maxIDsPerNotice+1)
	same(t, "the notice of missed events", slices.Contains(notices, missedNotice+" "+tenant.String()), true)
	for _, n := range notices {
		same(t, "a notice fits into a NOTIFY payload", len(n) < 7900, true)
	}
	same(t, "notices after they were taken", len(w.takeNotices()), 0)

	for range maxBuffered/100 + 1 {
		w.distribute(tenant, eventhook.EventUpdates{Events: make([]eventhook.Event, 100)})
	}
	updates := w.takeUpdates(l)
	same(t, "events that wait for a slow watcher", len(updates.Events), maxBuffered)
	same(t, "the rest is missed", updates.Missed, true)
	same(t, "then", w.takeUpdates(l), eventhook.EventUpdates{})
}

func TestASlowWatcherBlocksNoOtherWatcher(t *testing.T) {
	w, tenant := newTestFeed()
	slow, fast := w.subscribe(tenant), w.subscribe(tenant)
	for range 2 * maxBuffered {
		w.distribute(tenant, eventhook.EventUpdates{Events: make([]eventhook.Event, 1)})
		if updates := w.takeUpdates(fast); len(updates.Events) != 1 || updates.Missed {
			t.Fatalf("fast watcher: got %d events, missed %t, want 1 and false", len(updates.Events), updates.Missed)
		}
	}
	same(t, "the slow watcher has missed some", w.takeUpdates(slow).Missed, true)
	w.unsubscribe(tenant, slow)
	same(t, "still watched", w.isUnwatched(), false)
	w.unsubscribe(tenant, fast)
	same(t, "watched", w.isUnwatched(), true)
}

func TestPendingChangesAreReadInParts(t *testing.T) {
	w, _ := newTestFeed()
	const tenants = 2*maxRead/maxPending + 1
	for range tenants {
		tenant := eventhook.NewID[eventhook.Tenant](noon)
		w.subscribe(tenant)
		w.eventsChanged(noon, tenant, newEventIDs(maxPending)...)
	}
	seen := map[eventhook.TenantID]bool{}
	for range tenants {
		select {
		case <-w.ready:
		default:
			continue
		}
		n := 0
		for tenant, h := range w.takePending() {
			n += len(h.ids)
			seen[tenant] = true
		}
		if n > maxRead {
			t.Errorf("read %d events together, want at most %d", n, maxRead)
		}
	}
	same(t, "tenants read", len(seen), tenants)
}

func TestUnknownNoticesAreIgnored(t *testing.T) {
	f := setUp(t)
	w := f.watch(f.db, f.tenant)
	for _, notice := range []string{"", "watch", "watch nobody", "event", "event nobody " + f.tenant.String(), "event " + f.tenant.String() + " nothing", "missed", "what " + f.tenant.String()} {
		f.db.handleNotice(notice)
	}
	select {
	case updates := <-w.updates:
		t.Errorf("received %+v, want nothing", updates)
	default:
	}
	same(t, "tenants watched elsewhere", len(f.db.feed.remote), 0)
}
