package schedule_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/outbound/schedule"
)

// actions returns all actions on a scheduler. They may happen in any order.
func (m *model) actions() map[string]func(*rapid.T) {
	t := m.T
	few := rapid.IntRange(1, 10)
	return map[string]func(*rapid.T){
		"": func(*rapid.T) { m.check() },
		"publish": func(*rapid.T) {
			to, n := m.someTarget(), few.Draw(t, "n")
			granted, until := m.s.Reserve(to.Destination, n, m.now)
			if to.Ready {
				to.know()
			}
			if want := m.now.Add(m.config.Lease + to.Timeout); granted > n || !until.Equal(want) {
				t.Fatalf("granted %d of %d until %s, want %s", granted, n, until, want)
			}
			for _, x := range m.create(to, granted, reserved) {
				x.leaseTo = until
			}
			m.create(to, n-granted, stored)
		},
		"offer": func(*rapid.T) {
			m.offerReserved()
		},
		"release what is reserved": func(*rapid.T) {
			for _, x := range m.at(reserved) {
				m.move(x, reserved, stored)
				m.s.Release(x.to.ID, 1, m.now)
			}
		},
		"store": func(*rapid.T) { m.create(m.someTarget(), few.Draw(t, "n"), stored) },
		"look": func(*rapid.T) {
			to := m.someTarget()
			if m.s.ShouldClaim(to.ID, m.now) && !to.deleted {
				m.claim(to, rapid.IntRange(0, 9).Draw(t, "fails") == 0)
			}
		},
		"claim": func(*rapid.T) { m.claimNext() },
		"send":  func(*rapid.T) { m.sendAll() },
		"finish": func(*rapid.T) {
			for range few.Draw(t, "n") {
				m.finishSome()
			}
		},
		"be busy": func(*rapid.T) {
			m.fill(m.someTarget(), 30)
			m.sendAll()
		},
		"fail":   func(*rapid.T) { m.failAll() },
		"settle": func(*rapid.T) { m.settle(few.Draw(t, "n"), rapid.IntRange(0, 9).Draw(t, "lost") == 0) },
		"take":   func(*rapid.T) { m.takeReleased(few.Draw(t, "n")) },
		"return": func(*rapid.T) { m.release() },
		"pace":   func(*rapid.T) { m.pace(rapid.Bool().Draw(t, "fails")) },
		"time": func(*rapid.T) {
			m.now = m.now.Add(rapid.SampledFrom([]time.Duration{time.Millisecond, 100 * time.Millisecond, time.Second, 20 * time.Second}).Draw(t, "span"))
			if next, ok := m.s.Advance(m.now); ok && !next.After(m.now) {
				t.Fatalf("the next timer is at %s, which is in the past", next)
			}
		},
		"configure": func(*rapid.T) {
			to := m.someTarget()
			to.Destination = m.settings(to.Destination)
			to.Version++
			if rapid.Bool().Draw(t, "told") {
				m.s.Update(to.Destination, m.now)
				to.know()
			}
		},
		"an old configuration": func(*rapid.T) {
			old := m.someTarget().known
			old.Version, old.Ready, old.Slots = old.Version-1, true, 1000
			m.s.Update(old, m.now)
		},
		"delete": func(*rapid.T) {
			to := m.someTarget()
			to.deleted = true
			m.s.Remove(to.ID)
		},
		"sweep": func(*rapid.T) {
			m.s.Sweep(m.now.Add(-time.Second))
			for _, to := range m.targets {
				if _, ok := m.s.Status(to.ID); !ok {
					to.known = schedule.Destination{ID: to.ID}
				}
			}
		},
	}
}

// claimNext claims for the next destination with a backlog; false if there is no such destination.
func (m *model) claimNext() bool {
	d, ok := m.s.NextClaim()
	if !ok {
		return false
	}
	for _, to := range m.targets {
		if to.ID == d.ID {
			m.claim(to, false)
		}
	}
	return true
}

func (m *model) offerReserved() {
	for _, x := range m.at(reserved) {
		m.move(x, reserved, offered)
		m.s.Offer([]*eventhook.Delivery{x.Delivery}, m.now)
	}
}

// finishSome finishes one of the jobs with any result.
func (m *model) finishSome() {
	if len(m.jobs) == 0 {
		return
	}
	i := rapid.IntRange(0, len(m.jobs)-1).Draw(m.T, "job")
	to := m.itemOf(m.jobs[i].Delivery).to
	r := schedule.Result{Destination: to.Destination}
	took := rapid.SampledFrom([]time.Duration{0, time.Millisecond, 20 * time.Second}).Draw(m.T, "took")
	switch kind := rapid.IntRange(0, 9).Draw(m.T, "result"); {
	case to.deleted:
		r.IsGone = true
	case !to.Ready:
	case kind == 0:
		r.IsLate = true
	case kind == 1:
		r.Backoff = time.Second
	case kind <= 4:
		r.Settled, r.RetryAt = true, m.now.Add(rapid.SampledFrom([]time.Duration{0, time.Second, time.Minute}).Draw(m.T, "retry"))
		r.Attempt = &schedule.Attempt{Took: took, Failed: true, RetryAfter: rapid.SampledFrom([]time.Duration{0, 0, time.Minute}).Draw(m.T, "retry after")}
	default:
		r.Settled, r.Attempt = true, &schedule.Attempt{Took: took}
	}
	m.finish(i, r)
}

// failAll lets all sends to a destination fail six times.
func (m *model) failAll() {
	to := m.someTarget()
	for range 6 {
		m.fill(to, 5)
		m.sendAll()
		for i := len(m.jobs) - 1; i >= 0; i-- {
			if x := m.itemOf(m.jobs[i].Delivery); x.to == to {
				m.finish(i, schedule.Result{Destination: to.Destination, IsGone: to.deleted, Settled: true, RetryAt: m.now, Attempt: &schedule.Attempt{Failed: true}})
			}
		}
		m.settle(len(m.items), false)
		m.look()
	}
}

// drain removes all faults: destinations are ready and answer, the database works, and time
// passes. All deliveries must be sent within a number of seconds.
func (m *model) drain(seconds int) {
	for _, to := range m.targets {
		to.Ready, to.deleted = true, false
		to.Version++
		m.s.Update(to.Destination, m.now)
		to.know()
	}
	for range seconds {
		m.look()
		m.s.Advance(m.now)
		for w := m.s.Work(); w != 0 || len(m.jobs) > 0; w = m.s.Work() {
			m.do(w)
		}
		m.check()
		if len(m.at(done)) == len(m.items) {
			return
		}
		m.now = m.now.Add(time.Second)
	}
	m.Fatalf("after %d s there is left %s", seconds, m)
}

// look claims for destinations with due deliveries in the database.
func (m *model) look() {
	due := map[*target]bool{}
	for _, x := range m.at(stored) {
		due[x.to] = due[x.to] || !x.dueAt.After(m.now)
	}
	for _, to := range m.targets {
		if due[to] && m.s.ShouldClaim(to.ID, m.now) {
			m.claim(to, false)
		}
	}
}

// do does the work that the scheduler returned, and lets all sends succeed.
func (m *model) do(w schedule.Work) {
	if w.Has(schedule.WorkClaim) {
		for m.claimNext() {
		}
	}
	if w.Has(schedule.WorkMemory) {
		m.look()
	}
	if w.Has(schedule.WorkRate) {
		m.grant()
	}
	if w.Has(schedule.WorkSend) {
		m.s.Advance(m.now)
		m.sendAll()
	}
	for len(m.jobs) > 0 {
		to := m.itemOf(m.jobs[0].Delivery).to
		m.finish(0, schedule.Result{Destination: to.Destination, Settled: true, Attempt: &schedule.Attempt{Took: time.Millisecond}})
	}
	m.settle(len(m.items), false)
	if w.Has(schedule.WorkRelease) {
		m.takeReleased(5)
		m.release()
	}
}

// grant reserves send times from now on.
func (m *model) grant() {
	list := m.s.RateRequests()
	starts := make([]time.Time, len(list))
	for i := range starts {
		starts[i] = m.now
	}
	m.s.GrantRates(list, starts, m.now)
}

// No delivery is lost, returned twice or starved, no limit is exceeded, and all memory is
// free in the end.
func TestNoDeliveryIsLostRepeatedOrStarved(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newModel(t)
		for range 5 {
			t.Repeat(m.actions())
		}
		m.offerReserved()
		// A minute of backoff, and then at least one delivery per second to each destination.
		m.drain(100 + 2*len(m.items))
		if held, bytes, released := m.s.Held(); held != 0 || bytes != 0 || released != 0 {
			t.Fatalf("%d deliveries and %d bytes are in memory and %d wait for their release, want 0", held, bytes, released)
		}
	})
}

// A stop releases all deliveries except running sends.
func TestCloseReleasesWaitingDeliveries(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newModel(t)
		for range 5 {
			t.Repeat(m.actions())
		}
		m.s.Close()
		m.offerReserved()
		if _, ok := m.s.Next(m.now); ok {
			t.Fatalf("a send starts after the stop")
		}
		if n, _ := m.s.Reserve(m.someTarget().Destination, 1, m.now); n != 0 {
			t.Fatalf("memory is granted after the stop")
		}
		for len(m.jobs) > 0 {
			m.finish(0, schedule.Result{Destination: m.jobs[0].Destination, Settled: rapid.Bool().Draw(t, "settled")})
		}
		m.settle(len(m.items), false)
		m.takeReleased(len(m.items))
		m.release()
		m.check()
		if held, bytes, _ := m.s.Held(); held != 0 || bytes != 0 {
			t.Fatalf("%d deliveries and %d bytes are in memory, want 0", held, bytes)
		}
	})
}
