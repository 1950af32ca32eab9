package usage_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/effects"
	"github.com/eventhook/eventhook/internal/usage"
)

func TestANilAccountCountsNothing(t *testing.T) {
	var a *usage.Account
	if x := a.Take(1, noon); x != nil {
		t.Errorf("got %v, want nothing", x)
	}
	a.Return(1, noon)
}

func TestStoredEventsAreCounted(t *testing.T) {
	r := newFixture(t)
	s := newSource(eventhook.Quota{})
	a := r.open(r.meter, s)
	r.wantTaken(a, 3, 10, 3)
	a.Return(10, r.clock.Now())
	r.flush()
	r.must(r.meter.FlushSources(t.Context()))
	same(t, "the tenant's", r.store.TenantDays(s.TenantID), map[time.Time]sum{today: {Events: 2, Bytes: 20}})
	same(t, "the source's", r.store.SourceTotals(), map[eventhook.SourceID]eventhook.SourceCount{s.ID: {SourceID: s.ID, At: noon, Events: 2}})
}

func TestPublishedEventsAreCountedOnceAndNeverRefused(t *testing.T) {
	r := newFixture(t)
	s := newSource(perDay(2))
	a := r.open(r.meter, s)
	publishing := func(change func(*effects.PlannedAction)) effects.PlannedAction {
		p := effects.PlannedAction{Action: eventhook.Action{Status: eventhook.ActionSuccess},
			Effect: effects.Effect{Publication: &effects.Publication{Data: make([]byte, 10)}}}
		change(&p)
		return p
	}
	settlement := &effects.Settlement{Event: &eventhook.Event{TenantID: s.TenantID}, Status: eventhook.EventProcessing, Actions: []effects.PlannedAction{
		publishing(func(*effects.PlannedAction) {}), publishing(func(*effects.PlannedAction) {}), publishing(func(*effects.PlannedAction) {}),
		publishing(func(p *effects.PlannedAction) { p.Status = eventhook.ActionSkipped }),
		{Action: eventhook.Action{Status: eventhook.ActionSuccess}},
	}}
	r.meter.Settled([]*effects.Settlement{settlement})
	r.wantTaken(a, 1, 1, 0)
	r.flush()
	same(t, "the tenant's", r.store.TenantDays(s.TenantID), map[time.Time]sum{today: {Events: 3, Bytes: 30}})
}

func TestRefusedEventsAreNotCounted(t *testing.T) {
	r := newFixture(t)
	s := newSource(perDay(2))
	r.wantTaken(r.open(r.meter, s), 50, 10, 2)
	r.flush()
	r.must(r.meter.FlushSources(t.Context()))
	same(t, "the tenant's", r.store.TenantDays(s.TenantID), map[time.Time]sum{today: {Events: 2, Bytes: 20}})
	same(t, "the source's", r.store.SourceTotals()[s.ID].Events, int64(2))
}

func TestAWriteThatFailsLosesNothing(t *testing.T) {
	r := newFixture(t)
	s := newSource(perDay(10))
	a := r.open(r.meter, s)
	r.wantTaken(a, 3, 10, 3)
	r.meter.Settled([]*effects.Settlement{{Event: &eventhook.Event{SourceID: s.ID}, Status: eventhook.EventDead}})
	r.store.FailWrites(errDown)
	for range 3 {
		if err := errors.Join(r.meter.Flush(t.Context()), r.meter.FlushSources(t.Context())); !errors.Is(err, errDown) {
			t.Errorf("got %v, want %v", err, errDown)
		}
	}
	r.store.FailWrites(nil)
	r.flush()
	r.must(r.meter.FlushSources(t.Context()))
	same(t, "the tenant's", r.store.TenantDays(s.TenantID), map[time.Time]sum{today: {Events: 3, Bytes: 30}})
	same(t, "the source's", r.store.SourceTotals()[s.ID], eventhook.SourceCount{SourceID: s.ID, At: noon, Events: 3, Failed: 1})
}

func TestTheQuotaHoldsWhileTotalsCannotBeRead(t *testing.T) {
	r := newFixture(t)
	s := newSource(perDay(10))
	a := r.open(r.meter, s)
	r.wantTaken(a, 5, 10, 5)
	r.store.FailReads(errDown)
	if err := r.meter.Flush(t.Context()); !errors.Is(err, errDown) {
		t.Errorf("got %v, want %v", err, errDown)
	}
	r.wantTaken(a, 9, 10, 5)
	r.store.FailReads(nil)
	r.flush()
	r.wantTaken(a, 9, 10, 0)
	same(t, "the tenant's", r.store.TenantDays(s.TenantID), map[time.Time]sum{today: {Events: 10, Bytes: 100}})
}

// A log accepts events while the database is down.
func TestEventsDoNotWaitForADatabaseThatHasFailed(t *testing.T) {
	r := newFixture(t)
	a := r.open(r.meter, newSource(perDay(1000)))
	tried := 0
	r.store.FailReads(errDown)
	r.store.OnRead(func() { tried++ })
	r.wantTaken(a, 100, 1, 100)
	same(t, "reads for 100 events", tried, 1)
	r.clock.Advance(10*time.Second - 1)
	r.wantTaken(a, 1, 1, 1)
	same(t, "reads before 10 s", tried, 1)
	r.clock.Advance(1)
	r.wantTaken(a, 100, 1, 100)
	same(t, "reads after 10 s", tried, 2)
	r.wantTaken(a, 1000, 1, 799) // the quota holds
}

func TestWithoutCountsNothingIsWritten(t *testing.T) {
	r := newFixture(t)
	a := r.open(r.meter, newSource(eventhook.Quota{}))
	r.flush()
	r.wantTaken(a, 1, 1, 1)
	a.Return(1, r.clock.Now())
	r.flush()
	r.must(r.meter.FlushSources(t.Context()))
	writes, reads := r.store.Calls()
	same(t, "writes and reads", []int{writes, reads}, []int{0, 0})
}

func TestFirstFailuresAreCounted(t *testing.T) {
	r := newFixture(t)
	s := newSource(eventhook.Quota{})
	settled := func(status eventhook.EventStatus, retries int) *effects.Settlement {
		return &effects.Settlement{Event: &eventhook.Event{SourceID: s.ID, RetryCount: retries}, Status: status}
	}
	r.meter.Settled([]*effects.Settlement{
		settled(eventhook.EventDelivered, 0), settled(eventhook.EventUnrouted, 0),
		settled(eventhook.EventFailed, 0), settled(eventhook.EventDead, 0),
		settled(eventhook.EventFailed, 1), settled(eventhook.EventDead, 3),
		{Event: &eventhook.Event{}, Status: eventhook.EventDead}, // without a source
	})
	r.clock.Advance(4 * time.Minute)
	r.must(r.meter.FlushSources(t.Context()))
	same(t, "counted", r.store.SourceTotals(), map[eventhook.SourceID]eventhook.SourceCount{s.ID: {SourceID: s.ID, At: noon, Failed: 2}})
}

func TestIdleTenantsAndSourcesAreEvicted(t *testing.T) {
	const many = 10 * cachedTenants
	r := newFixture(t)
	for range many {
		r.wantTaken(r.open(r.meter, newSource(perDay(5))), 1, 1, 1)
	}
	if cached, due := r.meter.Retained(); cached != cachedTenants || due != 3*many {
		t.Errorf("before the flush: %d tenants cached and %d counts due, want %d and %d", cached, due, cachedTenants, 3*many)
	}
	r.flush()
	r.must(r.meter.FlushSources(t.Context()))
	r.must(r.meter.FlushTraffic(t.Context()))
	if cached, due := r.meter.Retained(); cached != cachedTenants || due != 0 {
		t.Errorf("after the flush: %d tenants cached and %d counts due, want %d and 0", cached, due, cachedTenants)
	}
}

func TestAnEvictedTenantContinuesToCount(t *testing.T) {
	r := newFixture(t)
	s := newSource(perDay(10))
	old := r.open(r.meter, s)
	r.wantTaken(old, 2, 1, 2)
	for range 2 * cachedTenants {
		r.open(r.meter, newSource(perDay(5)))
	}
	again := r.open(r.meter, s)
	r.wantTaken(again, 3, 1, 3)
	r.flush()
	r.must(r.meter.FlushSources(t.Context()))
	same(t, "written", r.store.TenantDays(s.TenantID), map[time.Time]sum{today: {Events: 5, Bytes: 5}})
	same(t, "the source's", r.store.SourceTotals()[s.ID].Events, int64(5))
	r.wantTaken(old, 5, 1, 5)
	r.wantTaken(again, 1, 1, 1) // like another instance
	r.flush()
	r.wantTaken(again, 1, 1, 0)
	r.wantTaken(old, 1, 1, 0)
}

func TestNoCountIsLostToAFlush(t *testing.T) {
	const senders, each = 4, 2000
	r := newFixture(t)
	s := newSource(eventhook.Quota{})
	var all sync.WaitGroup
	for range senders {
		a := r.open(r.meter, s)
		all.Go(func() { r.take(a, each, 3) })
	}
	done := make(chan struct{})
	go func() {
		all.Wait()
		close(done)
	}()
	for counting := true; counting; {
		select {
		case <-done:
			counting = false
		default:
		}
		r.flush()
		r.must(r.meter.FlushSources(t.Context()))
	}
	same(t, "the tenant's", r.store.TenantDays(s.TenantID), map[time.Time]sum{today: {Events: senders * each, Bytes: 3 * senders * each}})
	same(t, "the source's", r.store.SourceTotals()[s.ID].Events, int64(senders*each))
}

func TestRunWritesEverySecondAndAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFixture(t)
		s := newSource(eventhook.Quota{})
		a := r.open(r.meter, s)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- r.meter.Run(ctx) }()
		wait := func(d time.Duration) {
			time.Sleep(d) // takes no real time, see testing/synctest
			synctest.Wait()
		}
		written := func(tenant, source int64) {
			t.Helper()
			same(t, "the tenant's events", r.store.TenantDays(s.TenantID)[today].Events, tenant)
			same(t, "the source's events", r.store.SourceTotals()[s.ID].Events, source)
		}
		r.take(a, 1, 1)
		wait(time.Second - 1)
		written(0, 0)
		wait(1)
		written(1, 0)
		wait(9 * time.Second)
		written(1, 1)
		r.store.FailWrites(errDown)
		r.take(a, 1, 1)
		wait(20 * time.Second)
		r.store.FailWrites(nil)
		r.take(a, 1, 1)
		stop()
		r.must(<-done)
		written(3, 3)
	})
}
