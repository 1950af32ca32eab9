package usage_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/usage"
)

func TestAQuota(t *testing.T) {
	one := int64(1)
	for _, c := range []struct {
		claim string
		quota eventhook.Quota
		bytes int
		want  int    // of 10
		over  string // the exceeded quota
	}{
		{"no quota", eventhook.Quota{}, 100, 10, ""},
		{"of events", perDay(3), 100, 3, usage.EventsPerDay},
		{"of no event", perDay(0), 100, 0, usage.EventsPerDay},
		{"of bytes", stored(350), 100, 3, usage.StorageBytes},
		{"of bytes, used up exactly", stored(300), 100, 3, usage.StorageBytes},
		{"of no byte", stored(0), 1, 0, usage.StorageBytes},
		{"of both, where the events are reached first", eventhook.Quota{MaxEventsPerDay: &one, MaxStorageBytes: stored(350).MaxStorageBytes}, 100, 1, usage.EventsPerDay},
	} {
		t.Run(c.claim, func(t *testing.T) {
			r := newFixture(t)
			a := r.open(r.meter, newSource(c.quota))
			r.wantTaken(a, 10, c.bytes, c.want)
			over := ""
			if x := a.Take(c.bytes, r.clock.Now()); x != nil {
				over = x.Quota
				same(t, "resets at", x.ResetsAt, tomorrow)
			}
			same(t, "exceeded", over, c.over)
		})
	}
}

func TestASmallerEventMayStillFit(t *testing.T) {
	r := newFixture(t)
	a := r.open(r.meter, newSource(stored(100)))
	r.wantTaken(a, 1, 90, 1)
	r.wantTaken(a, 1, 11, 0)
	r.wantTaken(a, 1, 10, 1)
	r.wantTaken(a, 1, 1, 0)
}

func TestSourcesOfATenantShareItsQuota(t *testing.T) {
	r := newFixture(t)
	first := newSource(perDay(3))
	second, other := newSource(first.Quota), newSource(first.Quota)
	second.TenantID = first.TenantID
	r.wantTaken(r.open(r.meter, first), 2, 1, 2)
	r.wantTaken(r.open(r.meter, second), 2, 1, 1)
	r.wantTaken(r.open(r.meter, other), 3, 1, 3)
}

func TestASingleInstanceEnforcesAQuotaExactly(t *testing.T) {
	const quota, senders, each = 500, 8, 200
	r := newFixture(t)
	s := newSource(perDay(quota))
	var passed, running atomic.Int64
	var all sync.WaitGroup
	running.Store(senders)
	for range senders {
		a := r.open(r.meter, s)
		all.Go(func() {
			defer running.Add(-1)
			for n := range each {
				if a.Take(1, r.clock.Now()) != nil {
					continue
				}
				if n%5 == 0 {
					a.Return(1, r.clock.Now()) // not stored
					continue
				}
				passed.Add(1)
			}
		})
	}
	for running.Load() > 0 {
		r.flush()
	}
	all.Wait()
	passed.Add(int64(r.take(r.open(r.meter, s), quota, 1))) // use up the events that were returned last
	r.flush()
	same(t, "passed", passed.Load(), int64(quota))
	same(t, "written", r.store.TenantDays(s.TenantID), map[time.Time]sum{today: {Events: quota, Bytes: quota}})
}

func TestInstancesShareAQuota(t *testing.T) {
	r := newFixture(t)
	s, other := newSource(perDay(10)), r.newInstance()
	a, b := r.open(r.meter, s), r.open(other, s)
	r.wantTaken(a, 4, 1, 4)
	r.wantTaken(b, 4, 1, 4)
	r.flush(other) // no other instance has written yet
	r.wantTaken(a, 4, 1, 2)
	r.wantTaken(b, 1, 1, 1)
	r.flush()
	r.flush(other)
	r.wantTaken(a, 1, 1, 0)
	r.wantTaken(b, 1, 1, 0)
	r.wantTaken(r.open(r.newInstance(), s), 1, 1, 0)
}

func TestANewInstanceReadsTheTotalsFirst(t *testing.T) {
	r := newFixture(t)
	s := newSource(perDay(10))
	r.wantTaken(r.open(r.meter, s), 9, 1, 9)
	r.flush()
	r.wantTaken(r.open(r.newInstance(), s), 9, 1, 1)

	r.store.FailReads(errDown)
	if _, err := r.newInstance().Open(t.Context(), s); !errors.Is(err, errDown) {
		t.Errorf("opening without the totals: got %v, want %v", err, errDown)
	}
	if _, err := r.newInstance().Open(t.Context(), newSource(eventhook.Quota{})); err != nil {
		t.Errorf("opening a source without a quota: got %v, want no read", err)
	}
}

func TestRepeatedOpeningReadsOnce(t *testing.T) {
	r := newFixture(t)
	s := newSource(perDay(10))
	for range 100 {
		r.open(r.meter, s)
	}
	_, reads := r.store.Calls()
	same(t, "reads of today and of earlier days", reads, 2)
	r.clock.Advance(time.Minute)
	r.wantTaken(r.open(r.newInstance(), s), 9, 1, 9)
	r.open(r.meter, s)
	if _, reads := r.store.Calls(); reads == 2 {
		t.Error("Open did not read the totals after a minute")
	}
}

func TestAChangedQuotaAppliesToNewAccounts(t *testing.T) {
	r := newFixture(t)
	s := newSource(perDay(2))
	r.wantTaken(r.open(r.meter, s), 3, 1, 2)
	s.Quota = perDay(5)
	r.wantTaken(r.open(r.meter, s), 9, 1, 3)
	s.Quota = perDay(1)
	r.wantTaken(r.open(r.meter, s), 1, 1, 0)
	s.Quota = eventhook.Quota{}
	r.wantTaken(r.open(r.meter, s), 9, 1, 9)
	s.Quota = perDay(15)
	r.wantTaken(r.open(r.meter, s), 9, 1, 1)
}

func TestANewDayBeginsAtMidnight(t *testing.T) {
	r := newFixture(t)
	s, other := newSource(perDay(3)), r.newInstance()
	r.clock.Advance(12*time.Hour - time.Millisecond)
	a, b := r.open(r.meter, s), r.open(other, s)
	r.wantTaken(a, 5, 10, 3)
	r.clock.Advance(time.Millisecond)
	r.wantTaken(a, 1, 10, 1)
	r.flush(other)
	same(t, "days", r.store.TenantDays(s.TenantID), map[time.Time]sum{today: {Events: 3, Bytes: 30}, tomorrow: {Events: 1, Bytes: 10}})
	r.wantTaken(b, 1, 10, 1)
	r.flush(other)
	r.wantTaken(b, 2, 10, 1)
	r.flush(other)
	r.clock.Advance(48 * time.Hour) // the parity of the first day again
	r.wantTaken(a, 5, 10, 3)
	r.flush(other)
	same(t, "two days later", r.store.TenantDays(s.TenantID)[tomorrow.AddDate(0, 0, 2)], sum{Events: 3, Bytes: 30})
	same(t, "the day before", r.store.TenantDays(s.TenantID)[tomorrow], sum{Events: 3, Bytes: 30})
}

func TestStorageIsKnownAcrossMidnight(t *testing.T) {
	r := newFixture(t)
	r.clock.Advance(12*time.Hour - time.Second)
	a := r.open(r.meter, newSource(stored(100)))
	r.wantTaken(a, 5, 10, 5)
	r.flush()
	for range 3 {
		r.clock.Advance(time.Second)
		r.wantTaken(a, 1, 10, 1)
		r.flush()
	}
	r.wantTaken(a, 5, 10, 2)
}

func TestStorageCountsAllDays(t *testing.T) {
	r := newFixture(t)
	s := newSource(stored(100))
	yesterday := today.AddDate(0, 0, -1)
	r.store.SetDay(s.TenantID, yesterday, sum{Events: 7, Bytes: 70})
	a := r.open(r.meter, s)
	r.wantTaken(a, 5, 10, 3)
	r.clock.Advance(12 * time.Hour)
	r.wantTaken(a, 1, 10, 0)
	r.flush()
	r.wantTaken(a, 1, 10, 0)

	r.store.SetDay(s.TenantID, yesterday, sum{})
	r.clock.Advance(time.Minute)
	r.wantTaken(a, 1, 10, 0) // refused with old totals; the tenant is now due for the flush
	r.flush()
	r.wantTaken(a, 9, 10, 7)
}

// After a reconnect the sources of all tenants are reloaded, and each load waits for the
// totals of its tenant.
func TestTotalsOfWaitingTenantsAreReadTogether(t *testing.T) {
	const many = 300
	for _, c := range []struct {
		claim   string
		failing error
		want    error
		reads   int
	}{
		{"in one batch", nil, nil, 4}, // two reads for the first tenant, two for all others
		{"and each gets the error of its read", errDown, errDown, many},
	} {
		t.Run(c.claim, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newFixture(t)
				gate := make(chan struct{})
				r.store.OnRead(func() { <-gate })
				r.store.FailReads(c.failing)
				var all sync.WaitGroup
				ctx, cancel := context.WithCancel(t.Context())
				open := func(s eventhook.Source) {
					all.Go(func() {
						a, err := r.meter.Open(ctx, s)
						if !errors.Is(err, c.want) {
							t.Errorf("opening: got %v, want %v", err, c.want)
						}
						if err == nil {
							r.wantTaken(a, 3, 1, 2)
						}
					})
				}
				for n := range many {
					open(newSource(perDay(2)))
					if n == 0 {
						synctest.Wait() // the first one reads, the others wait
					}
				}
				synctest.Wait()
				close(gate)
				all.Wait()
				cancel()
				if _, reads := r.store.Calls(); reads != c.reads {
					t.Errorf("%d reads for %d tenants, want %d", reads, many, c.reads)
				}
			})
		})
	}
}

func TestACancelledCallerDoesNotBlockOtherReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFixture(t)
		gate := make(chan struct{})
		r.store.OnRead(func() { <-gate })
		ctx, cancel := context.WithCancel(t.Context())
		var cancelled, waiting sync.WaitGroup
		for range 3 { // one reads, two wait
			cancelled.Go(func() {
				if _, err := r.meter.Open(ctx, newSource(perDay(2))); !errors.Is(err, context.Canceled) {
					t.Errorf("cancelled caller: got %v, want %v", err, context.Canceled)
				}
			})
			synctest.Wait()
		}
		waiting.Go(func() { r.wantTaken(r.open(r.meter, newSource(perDay(2))), 3, 1, 2) })
		synctest.Wait()
		cancel()
		close(gate)
		cancelled.Wait()
		waiting.Wait()
		if n := r.meter.Waiting(); n != 0 {
			t.Errorf("%d callers are still waiting, want 0", n)
		}
	})
}

// Even without periodic flushes, an instance accepts no more than its share before it reads the
// totals of all instances.
func TestTheOverrunOfAQuotaIsBounded(t *testing.T) {
	const instances = 4
	for _, c := range []struct {
		claim         string
		quota         eventhook.Quota
		bytes         int
		want, overrun int
	}{
		{"of many events", perDay(5000), 1, 5000, (instances - 1) * 100},
		{"of few", perDay(40), 1, 40, (instances - 1) * 10},
		{"of bytes", stored(200 << 20), 1 << 18, 800, (instances - 1) * 16},
	} {
		t.Run(c.claim, func(t *testing.T) {
			r := newFixture(t)
			s := newSource(c.quota)
			accounts := []*usage.Account{r.open(r.meter, s)}
			for range instances - 1 {
				accounts = append(accounts, r.open(r.newInstance(), s))
			}
			taken := 0
			for refused := 0; refused < instances; {
				refused = 0
				for _, a := range accounts {
					if a.Take(c.bytes, r.clock.Now()) == nil {
						taken++
					} else {
						refused++
					}
				}
			}
			if taken < c.want || taken > c.want+c.overrun {
				t.Errorf("%d events passed, want %d to %d", taken, c.want, c.want+c.overrun)
			}
		})
	}
}
