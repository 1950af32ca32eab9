package pg

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/eventhook/eventhook"
)

func wantClosed(t testing.TB, waiter string, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(patient):
		t.Errorf("%s was not woken", waiter)
	}
}

func wantOpen(t testing.TB, waiter string, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
		t.Errorf("%s was woken", waiter)
	default:
	}
}

// listening runs db's Listen until the test ends and returns the changes that it reports.
func (f *fixture) listening(db *DB) <-chan ConfigChange {
	ctx, cancel := context.WithCancel(context.Background())
	received := make(chan ConfigChange, 100)
	var loop sync.WaitGroup
	loop.Go(func() { _ = db.Listen(ctx, func(c ConfigChange) { received <- c }) })
	f.Cleanup(func() {
		cancel()
		loop.Wait()
	})
	same(f, "the first change", next(f, received), ConfigChange{})
	f.apply(eventhook.TenantConfig{Tenant: eventhook.Tenant{Slug: "probe", Name: f.Name() + time.Now().String()}})
	for next(f, received).TenantSlug != "probe" { // the connection is in use
	}
	return received
}

func next[T any](t testing.TB, c <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(patient):
		t.Fatal("nothing was received")
	}
	return v
}

func TestListenReportsConfigurationChanges(t *testing.T) {
	f := setUp(t)
	received := f.listening(f.other)
	f.apply(acme())
	config := acme()
	config.Sources[0].Routes[0].Priority = 7
	config.Sources[1].Source.IsEnabled = false
	f.apply(config)
	crm := ConfigChange{SourceID: f.crm, TenantID: eventhook.TenantID{}, TenantSlug: "acme", SourceSlug: "crm"}
	shop := ConfigChange{SourceID: f.shop, TenantSlug: "acme", SourceSlug: "shop"}
	same(t, "a changed route", next(t, received), crm)
	same(t, "a changed source", next(t, received), shop)
	config.Tenant.Name = "Acme Inc."
	f.apply(config)
	same(t, "a changed tenant", next(t, received), ConfigChange{TenantID: f.tenant, TenantSlug: "acme"})
	f.exec(`DELETE FROM eventhook.route`)
	same(t, "a route deleted by hand", next(t, received), crm)
	f.exec(`DELETE FROM eventhook.source WHERE slug = 'shop'`)
	same(t, "a source deleted by hand", next(t, received), shop)
	f.exec(`SELECT pg_notify('eventhook_config', 'what is this?')`)
	same(t, "an unknown notification", next(t, received), ConfigChange{})
}

func TestListenReconnects(t *testing.T) {
	f := setUp(t)
	received := f.listening(f.other)
	waiting := f.other.EventsWake()
	same(t, "connections ended", queryValue[int](f, `SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
		WHERE datname = current_database() AND query LIKE 'LISTEN%'`), 1)
	same(t, "the change after reconnecting", next(t, received), ConfigChange{})
	wantClosed(t, "a waiter that may have missed a wake-up", waiting)
	config := acme()
	config.Name = "Acme Inc."
	f.apply(config)
	same(t, "the change then", next(t, received).TenantSlug, "acme")
}

func TestWakeUpsReachOtherInstances(t *testing.T) {
	f := setUp(t)
	f.listening(f.other)
	ctx, cancel := context.WithCancel(t.Context())
	var sending sync.WaitGroup
	sending.Go(func() { _ = f.db.SendNotifications(ctx, time.Millisecond) })
	defer sending.Wait()
	defer cancel()

	p, queue := f.promise("k"), f.query().Queue
	events, work, promises := f.other.EventsWake(), f.other.WorkWake(f.tenant, queue), f.other.PromiseWake(f.tenant, p.ID)
	foreign, idle := f.other.WorkWake(f.secondTenant(), queue), f.other.WorkWake(f.tenant, "another queue")
	here := f.db.EventsWake()
	wantOpen(t, "a waiter for events", events)
	f.db.WakeEvents()
	wantClosed(t, "a waiter for events of this instance", here)
	wantClosed(t, "a waiter for events of the other instance", events)
	wantOpen(t, "a waiter for work", work)
	f.settle(f.db, f.plan(f.leasedEvents(1)[0], f.executionAction(eventhook.Task, "")))
	wantClosed(t, "a waiter for work of the other instance", work)
	wantOpen(t, "a waiter for a promise", promises)
	_, err := f.db.SettlePromise(t.Context(), f.tenant, p.ID, resolved)
	f.must(err)
	wantClosed(t, "a waiter for the promise of the other instance", promises)
	wantOpen(t, "another tenant's worker", foreign)
	wantOpen(t, "another queue's worker", idle)
}

// TestTopicsOfTheFormerVersion checks the topics that instances of the former version listen
// to.
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
	same(t, "topics to send", len(f.db.hub.takeUnsent()), 2)
	same(t, "and then", len(f.db.hub.takeUnsent()), 0)
}
