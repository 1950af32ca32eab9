package usage_test

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
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
		want  int // of 10
		over  string
	}{
		{"none lets all through", eventhook.Quota{}, 100, 10, ""},
		{"of events", perDay(3), 100, 3, usage.EventsPerDay},
		{"of no event", perDay(0), 100, 0, usage.EventsPerDay},
		{"of bytes", stored(350), 100, 3, usage.StorageBytes},
		{"of bytes may be used up", stored(300), 100, 3, usage.StorageBytes},
		{"of no byte", stored(0), 1, 0, usage.StorageBytes},
		{"of both holds for the first to be reached", eventhook.Quota{MaxEventsPerDay: &one, MaxStorageBytes: stored(350).MaxStorageBytes}, 100, 1, usage.EventsPerDay},
	} {
		t.Run(c.claim, func(t *testing.T) {
			r := newRig(t)
			a := r.open(r.meter, newSource(c.quota))
			r.wantTaken(a, 10, c.bytes, c.want)
			over := ""
			if x := a.Take(c.bytes, r.clock.now()); x != nil {
				over = x.Quota
				same(t, "resets at", x.ResetsAt, tomorrow)
			}
			same(t, "exceeded", over, c.over)
		})
	}
}

func TestASmallerEventMayStillFit(t *testing.T) {
	r := newRig(t)
	a := r.open(r.meter, newSource(stored(100)))
	r.wantTaken(a, 1, 90, 1)
	r.wantTaken(a, 1, 11, 0)
	r.wantTaken(a, 1, 10, 1)
	r.wantTaken(a, 1, 1, 0)
}

func TestSourcesOfATenantShareItsQuota(t *testing.T) {
	r := newRig(t)
	first := newSource(perDay(3))
	second, stranger := newSource(first.Quota), newSource(first.Quota)
	second.TenantID = first.TenantID
	r.wantTaken(r.open(r.meter, first), 2, 1, 2)
	r.wantTaken(r.open(r.meter, second), 2, 1, 1)
	r.wantTaken(r.open(r.meter, stranger), 3, 1, 3)
}

func TestOneInstanceKeepsToItsQuotaExactly(t *testing.T) {
	const quota, senders, each = 500, 8, 200
	r := newRig(t)
	s := newSource(perDay(quota))
	var passed, running atomic.Int64
	var all sync.WaitGroup
	running.Store(senders)
	for range senders {
		a := r.open(r.meter, s)
		all.Go(func() {
			defer running.Add(-1)
			for n := range each {
				if a.Take(1, r.clock.now()) != nil {
					continue
				}
				if n%5 == 0 {
					a.Return(1, r.clock.now()) // not stored
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
	passed.Add(int64(r.take(r.open(r.meter, s), quota, 1))) // what was given back late
	r.flush()
	same(t, "passed", passed.Load(), int64(quota))
	same(t, "written down", r.store.of(s.TenantID), map[time.Time]sum{today: {quota, quota}})
}

func TestAQuotaIsOfAllInstances(t *testing.T) {
	r := newRig(t)
	s, other := newSource(perDay(10)), r.another()
	a, b := r.open(r.meter, s), r.open(other, s)
	r.wantTaken(a, 4, 1, 4)
	r.wantTaken(b, 4, 1, 4)
	r.flush(other) // which is the first to write, and hears of nothing
	r.wantTaken(a, 4, 1, 2)
	r.wantTaken(b, 1, 1, 1)
	r.flush()
	r.flush(other)
	r.wantTaken(a, 1, 1, 0)
	r.wantTaken(b, 1, 1, 0)
	r.wantTaken(r.open(r.another(), s), 1, 1, 0)
}

func TestAFreshInstanceLearnsFirst(t *testing.T) {
	r := newRig(t)
	s := newSource(perDay(10))
	r.wantTaken(r.open(r.meter, s), 9, 1, 9)
	r.flush()
	r.wantTaken(r.open(r.another(), s), 9, 1, 1)

	r.store.set(func(s *store) { s.readErr = errDown })
	if _, err := r.another().Open(t.Context(), s); !errors.Is(err, errDown) {
		t.Errorf("opening without the totals: got %v, want %v", err, errDown)
	}
	if _, err := r.another().Open(t.Context(), newSource(eventhook.Quota{})); err != nil {
		t.Errorf("opening what has no quota: got %v, want no read", err)
	}
}

func TestOpeningAgainAndAgainReadsOnce(t *testing.T) {
	r := newRig(t)
	s := newSource(perDay(10))
	for range 100 {
		r.open(r.meter, s)
	}
	same(t, "reads: of today and of before", r.store.reads, 2)
	r.clock.advance(time.Minute)
	r.wantTaken(r.open(r.another(), s), 9, 1, 9)
	r.open(r.meter, s)
	if r.store.reads == 2 {
		t.Error("an account that is opened after a minute believes what it knew")
	}
}

func TestAChangedQuotaHoldsForWhatIsOpenedThen(t *testing.T) {
	r := newRig(t)
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
	r := newRig(t)
	s, other := newSource(perDay(3)), r.another()
	r.clock.advance(12*time.Hour - time.Millisecond)
	a, b := r.open(r.meter, s), r.open(other, s)
	r.wantTaken(a, 5, 10, 3)
	r.clock.advance(time.Millisecond)
	r.wantTaken(a, 1, 10, 1)
	r.flush(other)
	same(t, "days", r.store.of(s.TenantID), map[time.Time]sum{today: {3, 30}, tomorrow: {1, 10}})
	r.wantTaken(b, 1, 10, 1)
	r.flush(other)
	r.wantTaken(b, 2, 10, 1)
	r.flush(other)
	r.clock.advance(48 * time.Hour) // the parity is the first day's again
	r.wantTaken(a, 5, 10, 3)
	r.flush(other)
	same(t, "two days later", r.store.of(s.TenantID)[tomorrow.AddDate(0, 0, 2)], sum{3, 30})
	same(t, "the day before", r.store.of(s.TenantID)[tomorrow], sum{3, 30})
}

func TestStorageIsKnownAcrossMidnight(t *testing.T) {
	r := newRig(t)
	r.clock.advance(12*time.Hour - time.Second)
	a := r.open(r.meter, newSource(stored(100)))
	r.wantTaken(a, 5, 10, 5)
	r.flush()
	for range 3 {
		r.clock.advance(time.Second)
		r.wantTaken(a, 1, 10, 1)
		r.flush()
	}
	r.wantTaken(a, 5, 10, 2)
}

func TestStorageIsOfAllDaysThatAreKept(t *testing.T) {
	r := newRig(t)
	s := newSource(stored(100))
	yesterday := tenantDay{s.TenantID, today.AddDate(0, 0, -1)}
	r.store.set(func(st *store) { st.days[yesterday] = sum{7, 70} })
	a := r.open(r.meter, s)
	r.wantTaken(a, 5, 10, 3)
	r.clock.advance(12 * time.Hour)
	r.wantTaken(a, 1, 10, 0)
	r.flush()
	r.wantTaken(a, 1, 10, 0)

	r.store.set(func(st *store) { delete(st.days, yesterday) })
	r.clock.advance(time.Minute)
	r.wantTaken(a, 1, 10, 0) // it asks, and so is told
	r.flush()
	r.wantTaken(a, 9, 10, 7)
}
