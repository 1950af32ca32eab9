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
	same(t, "written down", r.store.Of(s.TenantID), map[time.Time]sum{today: {Events: quota, Bytes: quota}})
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

	r.store.FailReads(errDown)
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
	_, reads := r.store.Calls()
	same(t, "reads: of today and of before", reads, 2)
	r.clock.advance(time.Minute)
	r.wantTaken(r.open(r.another(), s), 9, 1, 9)
	r.open(r.meter, s)
	if _, reads := r.store.Calls(); reads == 2 {
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
	same(t, "days", r.store.Of(s.TenantID), map[time.Time]sum{today: {Events: 3, Bytes: 30}, tomorrow: {Events: 1, Bytes: 10}})
	r.wantTaken(b, 1, 10, 1)
	r.flush(other)
	r.wantTaken(b, 2, 10, 1)
	r.flush(other)
	r.clock.advance(48 * time.Hour) // the parity is the first day's again
	r.wantTaken(a, 5, 10, 3)
	r.flush(other)
	same(t, "two days later", r.store.Of(s.TenantID)[tomorrow.AddDate(0, 0, 2)], sum{Events: 3, Bytes: 30})
	same(t, "the day before", r.store.Of(s.TenantID)[tomorrow], sum{Events: 3, Bytes: 30})
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
	yesterday := today.AddDate(0, 0, -1)
	r.store.SetDay(s.TenantID, yesterday, sum{Events: 7, Bytes: 70})
	a := r.open(r.meter, s)
	r.wantTaken(a, 5, 10, 3)
	r.clock.advance(12 * time.Hour)
	r.wantTaken(a, 1, 10, 0)
	r.flush()
	r.wantTaken(a, 1, 10, 0)

	r.store.SetDay(s.TenantID, yesterday, sum{})
	r.clock.advance(time.Minute)
	r.wantTaken(a, 1, 10, 0) // it asks, and so is told
	r.flush()
	r.wantTaken(a, 9, 10, 7)
}

// TestThoseWhoWaitAreReadTogether: after a reconnect all tenants' sources are
// loaded anew, and each load waits for what its tenant has used.
func TestThoseWhoWaitAreReadTogether(t *testing.T) {
	const many = 300
	for _, c := range []struct {
		claim   string
		failing error
		want    error
		reads   int
	}{
		{"with the next", nil, nil, 4}, // of today and of before: the first's, and then all others'
		{"and hear of what fails", errDown, errDown, many},
	} {
		t.Run(c.claim, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				gate := make(chan struct{})
				r.store.OnRead(func() { <-gate })
				r.store.FailReads(c.failing)
				var all sync.WaitGroup
				ctx, leave := context.WithCancel(t.Context())
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
						synctest.Wait() // it is reading, and the others wait
					}
				}
				synctest.Wait()
				close(gate)
				all.Wait()
				leave()
				if _, reads := r.store.Calls(); reads != c.reads {
					t.Errorf("%d reads for %d tenants, want %d", reads, many, c.reads)
				}
			})
		})
	}
}

// TestWhoLeavesDoesNotKeepOthersFromReading, nor is read for.
func TestWhoLeavesDoesNotKeepOthersFromReading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		gate := make(chan struct{})
		r.store.OnRead(func() { <-gate })
		ctx, leave := context.WithCancel(t.Context())
		var left, stay sync.WaitGroup
		for range 3 { // one reads, two wait
			left.Go(func() {
				if _, err := r.meter.Open(ctx, newSource(perDay(2))); !errors.Is(err, context.Canceled) {
					t.Errorf("who left: got %v, want %v", err, context.Canceled)
				}
			})
			synctest.Wait()
		}
		stay.Go(func() { r.wantTaken(r.open(r.meter, newSource(perDay(2))), 3, 1, 2) })
		synctest.Wait()
		leave()
		close(gate)
		left.Wait()
		stay.Wait()
		if n := r.meter.Waiting(); n != 0 {
			t.Errorf("%d are still waited for, want none", n)
		}
	})
}

// However fast events come, no instance runs ahead of what it knows of the
// others by more than its share.
func TestNoInstanceRunsAheadOfTheOthers(t *testing.T) {
	const instances = 4
	for _, c := range []struct {
		claim          string
		quota          eventhook.Quota
		bytes          int
		want, overshot int // without any flush by time
	}{
		{"of many events", perDay(5000), 1, 5000, (instances - 1) * 100},
		{"of few", perDay(40), 1, 40, (instances - 1) * 10},
		{"of bytes", stored(200 << 20), 1 << 18, 800, (instances - 1) * 16},
	} {
		t.Run(c.claim, func(t *testing.T) {
			r := newRig(t)
			s := newSource(c.quota)
			accounts := []*usage.Account{r.open(r.meter, s)}
			for range instances - 1 {
				accounts = append(accounts, r.open(r.another(), s))
			}
			taken := 0
			for refused := 0; refused < instances; {
				refused = 0
				for _, a := range accounts {
					if a.Take(c.bytes, r.clock.now()) == nil {
						taken++
					} else {
						refused++
					}
				}
			}
			if taken < c.want || taken > c.want+c.overshot {
				t.Errorf("%d were let through, want %d to %d", taken, c.want, c.want+c.overshot)
			}
		})
	}
}
