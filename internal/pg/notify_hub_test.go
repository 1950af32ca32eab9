package pg

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/eventhook/eventhook"
)

func wantClosed(t testing.TB, who string, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(patient):
		t.Errorf("%s was not woken", who)
	}
}

func wantOpen(t testing.TB, who string, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
		t.Errorf("%s was woken", who)
	default:
	}
}

// listening runs db's Listen until the test ends and returns what it hears.
func (f *fixture) listening(db *DB) <-chan ConfigChange {
	ctx, cancel := context.WithCancel(context.Background())
	heard := make(chan ConfigChange, 100)
	var loop sync.WaitGroup
	loop.Go(func() { _ = db.Listen(ctx, func(c ConfigChange) { heard <- c }) })
	f.Cleanup(func() {
		cancel()
		loop.Wait()
	})
	same(f, "the first thing heard", next(f, heard), ConfigChange{})
	f.apply(eventhook.TenantConfig{Tenant: eventhook.Tenant{Slug: "probe", Name: f.Name() + time.Now().String()}})
	for next(f, heard).TenantSlug != "probe" { // it has been connected for good
	}
	return heard
}

func next[T any](t testing.TB, c <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(patient):
		t.Fatal("nothing was heard")
	}
	return v
}

func TestListenReportsConfigurationChanges(t *testing.T) {
	f := setUp(t)
	heard := f.listening(f.other)
	f.apply(acme())
	config := acme()
	config.Sources[0].Routes[0].Priority = 7
	config.Sources[1].Source.IsEnabled = false
	f.apply(config)
	crm := ConfigChange{SourceID: f.crm, TenantID: eventhook.TenantID{}, TenantSlug: "acme", SourceSlug: "crm"}
	shop := ConfigChange{SourceID: f.shop, TenantSlug: "acme", SourceSlug: "shop"}
	same(t, "a changed route", next(t, heard), crm)
	same(t, "a changed source", next(t, heard), shop)
	config.Tenant.Name = "Acme Inc."
	f.apply(config)
	same(t, "a changed tenant", next(t, heard), ConfigChange{TenantID: f.tenant, TenantSlug: "acme"})
	f.exec(`DELETE FROM eventhook.route`)
	same(t, "a route deleted by hand", next(t, heard), crm)
	f.exec(`DELETE FROM eventhook.source WHERE slug = 'shop'`)
	same(t, "a source deleted by hand", next(t, heard), shop)
	f.exec(`SELECT pg_notify('eventhook_config', 'what is this?')`)
	same(t, "what it does not understand", next(t, heard), ConfigChange{})
}

func TestListenReconnects(t *testing.T) {
	f := setUp(t)
	heard := f.listening(f.other)
	waiting := f.other.EventsWake()
	same(t, "connections ended", one[int](f, `SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
		WHERE datname = current_database() AND query LIKE 'LISTEN%'`), 1)
	same(t, "heard after that", next(t, heard), ConfigChange{})
	wantClosed(t, "who may have missed something", waiting)
	config := acme()
	config.Name = "Acme Inc."
	f.apply(config)
	same(t, "heard then", next(t, heard).TenantSlug, "acme")
}

func TestWakeUpsReachOtherInstances(t *testing.T) {
	f := setUp(t)
	f.listening(f.other)
	ctx, cancel := context.WithCancel(t.Context())
	var telling sync.WaitGroup
	telling.Go(func() { _ = f.db.SendNotifications(ctx, time.Millisecond) })
	defer telling.Wait()
	defer cancel()

	p, queue := f.promise("k"), f.query().Queue
	events, work, promises := f.other.EventsWake(), f.other.WorkWake(f.tenant, queue), f.other.PromiseWake(f.tenant, p.ID)
	foreign, idle := f.other.WorkWake(f.secondTenant(), queue), f.other.WorkWake(f.tenant, "another queue")
	here := f.db.EventsWake()
	wantOpen(t, "who waits for events", events)
	f.db.WakeEvents()
	wantClosed(t, "who waits for events here", here)
	wantClosed(t, "who waits for events there", events)
	wantOpen(t, "who waits for work", work)
	f.settle(f.db, f.plan(f.accepted(1)[0], f.makes(eventhook.Task, "")))
	wantClosed(t, "who waits for work there", work)
	wantOpen(t, "who waits for a promise", promises)
	_, err := f.db.SettlePromise(t.Context(), f.tenant, p.ID, resolved)
	f.must(err)
	wantClosed(t, "who waits for the promise there", promises)
	wantOpen(t, "another tenant's worker", foreign)
	wantOpen(t, "another queue's worker", idle)
}

// TestTopicsOfTheFormerVersion holds the topics that instances of the former
// version listen to.
func TestTopicsOfTheFormerVersion(t *testing.T) {
	tenant, id := eventhook.TenantID{1}, eventhook.PromiseID{15: 200}
	same(t, "a queue's topic", workTopic(tenant, "default"), "work 01000000-0000-0000-0000-000000000000 30")
	same(t, "a promise's topic", promiseTopic(tenant, id), "promise 01000000-0000-0000-0000-000000000000 8")
}

func TestWakeUpsAreMerged(t *testing.T) {
	f := setUp(t)
	for range 1000 {
		f.db.WakeEvents()
		f.db.hub.wake(workTopic(f.tenant, "q"))
	}
	same(t, "topics to tell", len(f.db.hub.takeUnsent()), 2)
	same(t, "and then", len(f.db.hub.takeUnsent()), 0)
}
