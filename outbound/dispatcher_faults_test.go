package outbound_test

import (
	"slices"
	"testing"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/outbound"
	"github.com/eventhook/eventhook/outbound/schedule"
)

// steadily publishes one event to each subscriber at an interval, for a duration.
func (i *instance) steadily(subs []*eventhook.Subscription, every, during time.Duration) {
	for end := time.Now().Add(during); time.Now().Before(end); time.Sleep(every) {
		for _, s := range subs {
			i.publish(s, 1)
		}
	}
	i.w.pass(time.Second)
}

// p99 is that of all deliveries to some subscribers.
func (w *world) p99(subs []*eventhook.Subscription) time.Duration {
	var all station
	for _, s := range subs {
		all.waits = append(all.waits, w.seen(s).waits...)
	}
	return all.percentile(99)
}

// One receiver is dead, in one of several ways, and has a backlog. Events are still
// published to it and to 99 healthy receivers.
func TestADeadReceiverDoesNotDelayOtherReceivers(t *testing.T) {
	slow := func() eventhook.Attempt { return eventhook.Attempt{StatusCode: 200} }
	measure := func(t *testing.T, backlog int, takes time.Duration, answer func() eventhook.Attempt) (p99 time.Duration) {
		inWorld(t, func(t *testing.T, w *world) {
			tenant := newTenant()
			var healthy []*eventhook.Subscription
			for range 99 {
				healthy = append(healthy, w.subscribe(tenant, 20*time.Millisecond, nil))
			}
			all := healthy
			if backlog > 0 {
				ill := w.subscribe(tenant, takes, answer)
				w.backlog(ill, backlog)
				all = append(slices.Clone(healthy), ill)
			}
			w.set(func(q *deliveryQueue) { q.answer = 2 * time.Millisecond })
			i := w.start()
			i.steadily(all, 50*time.Millisecond, 10*time.Second)
			p99 = w.p99(healthy)
			for _, s := range healthy {
				if got := w.counts(s.ID); len(got) != 1 || got[success] == 0 {
					t.Fatalf("a healthy one's deliveries are %v", got)
				}
			}
		})
		return p99
	}
	without := measure(t, 0, 0, nil)
	for _, c := range []struct {
		claim  string
		takes  time.Duration
		answer func() eventhook.Attempt
	}{
		{"refuses", 0, refused},
		{"times out", time.Hour, nil},
		{"answers 500", 20 * time.Millisecond, answered(500)},
		{"is slow", 29 * time.Second, slow},
	} {
		if with := measure(t, 100_000, c.takes, c.answer); with > without*3/2 {
			t.Errorf("%s: p99 of the others is %s, want at most 1.5 × %s", c.claim, with, without)
		}
	}
}

func TestADeadReceiverIsProbed(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		s := w.subscribe(newTenant(), 0, refused)
		w.backlog(s, 10_000)
		i := w.start()
		w.pass(10 * time.Minute)
		got := w.seen(s)
		if n := len(got.times); n > 4+5+30 || n < 20 {
			t.Errorf("it was tried %d times in 10 minutes, want a probe every 30 s at most", n)
		}
		if state, _ := i.Status(eventhook.DestinationID(s.ID)); state.Circuit != schedule.Open || state.Slots != 1 || state.Waiting != 0 {
			t.Errorf("it is served as %+v, want open, with nothing in memory", state)
		}
		if n := i.Stats().Open; n != 1 {
			t.Errorf("%d lanes are open, want 1", n)
		}
		if n := w.stats().claimed[s.ID]; n > 64+2*len(got.times) {
			t.Errorf("%d deliveries were claimed for %d attempts", n, len(got.times))
		}
		gaveUp := w.counts(s.ID)[dead]
		if gaveUp < 3 {
			t.Errorf("%d deliveries are dead after %d attempts, want 3 at least, or it would never be disabled", gaveUp, len(got.times))
		}
		w.answers(s, time.Millisecond, nil)
		w.pass(2 * time.Minute)
		w.want(s, "when it is well again", statuses{success: 10_000 - gaveUp, dead: gaveUp})
		if state, _ := i.Status(eventhook.DestinationID(s.ID)); state.Circuit != schedule.Closed || i.Stats().Open != 0 {
			t.Errorf("it is served as %+v, want closed", state)
		}
	})
}

// Who gives a subscription another URL does not wait for the next probe.
func TestAChangedURLIsTriedImmediately(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		s := w.subscribe(newTenant(), 0, refused, func(s *eventhook.Subscription) { s.URL = eventhook.NewSecret("https://old.example") })
		w.backlog(s, 100)
		i := w.start()
		for state, _ := i.Status(eventhook.DestinationID(s.ID)); time.Until(state.BackoffUntil) < 20*time.Second; state, _ = i.Status(eventhook.DestinationID(s.ID)) {
			w.pass(time.Second)
		}
		w.answers(s, time.Millisecond, nil)
		w.alter(s, func(s *eventhook.Subscription) {
			s.Name = "another name, and the same URL, read anew"
			s.URL = eventhook.NewSecret("https://old.example")
		})
		i.TenantChanged(s.TenantID)
		w.pass(time.Second)
		if state, _ := i.Status(eventhook.DestinationID(s.ID)); state.Circuit != schedule.Open {
			t.Errorf("another name made it %s", state.Circuit)
		}
		w.alter(s, func(s *eventhook.Subscription) { s.URL = eventhook.NewSecret("https://new.example") })
		i.TenantChanged(s.TenantID)
		w.pass(2 * time.Second)
		if got := w.counts(s.ID); got[success] < 90 || i.Stats().Open != 0 {
			t.Errorf("deliveries are %v, want nearly all delivered", got)
		}
	})
}

func TestAReceiverThatTimesOutUsesFewSlots(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		s := w.subscribe(newTenant(), time.Hour, nil)
		i := w.start()
		i.publish(s, 64)
		w.pass(5 * time.Minute)
		if got := w.seen(s); got.most > 4 || len(got.times) > 20 {
			t.Errorf("%d at once and %d in all, want 4 at most and then a probe at a time", got.most, len(got.times))
		}
	})
}

func TestAFlappingReceiverEventuallyGetsAllDeliveries(t *testing.T) {
	inWorld(t, func(_ *testing.T, w *world) {
		began := time.Now()
		s := w.subscribe(newTenant(), 5*time.Millisecond, func() eventhook.Attempt {
			if time.Since(began)%(20*time.Second) < 10*time.Second {
				return refused()
			}
			return eventhook.Attempt{StatusCode: 200}
		}, func(s *eventhook.Subscription) { s.Retry.MaxRetries = new(10) })
		i := w.start()
		i.steadily([]*eventhook.Subscription{s}, 100*time.Millisecond, 2*time.Minute)
		w.pass(5 * time.Minute)
		w.want(s, "in the end", statuses{success: 1200})
	})
}

// A tenant with many endpoints that take 25 s and then answer well leaves room
// to others, at once.
func TestATenantWithSlowReceiversLeavesSlots(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		i := w.start()
		hog, other := newTenant(), newTenant()
		for range 1000 {
			s := w.subscribe(hog, 25*time.Second, nil)
			w.backlog(s, 10)
		}
		quick := w.subscribe(other, 10*time.Millisecond, nil)
		w.wakeAll()
		w.pass(5 * time.Second)
		if n := i.Stats().Sending; n < 200 || n > 256 {
			t.Errorf("one tenant has %d under way, want about half of 512", n)
		}
		for range 100 {
			i.publish(quick, 1)
			w.pass(50 * time.Millisecond)
		}
		w.want(quick, "all of them", statuses{success: 100})
		if p := w.seen(quick).percentile(99); p > 12*time.Millisecond {
			t.Errorf("another tenant waits %s, want no more than its endpoint takes", p)
		}
	})
}

// Within a tenant, slow receivers leave slots for all other receivers.
func TestSlowReceiversLeaveSlotsToTheirTenantsOtherReceivers(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		i := w.start(func(c *outbound.Config) { c.SendsAtOnce = 64 })
		tenant := newTenant()
		for range 8 {
			w.backlog(w.subscribe(tenant, 25*time.Second, nil), 200)
		}
		quick := w.subscribe(tenant, 10*time.Millisecond, nil)
		w.wakeAll()
		w.pass(time.Minute)
		if n := i.Stats().Sending; n < 25 {
			t.Fatalf("%d are under way, want nearly all of the tenant's 32", n)
		}
		for range 100 {
			i.publish(quick, 1)
			w.pass(50 * time.Millisecond)
		}
		w.want(quick, "all of them", statuses{success: 100})
		if p := w.seen(quick).percentile(99); p > 12*time.Millisecond {
			t.Errorf("it waits %s, want no more than its endpoint takes", p)
		}
	})
}

// All retries of a world of endpoints that do not answer have half of the
// places, so that what is new goes on.
func TestRetriesLeaveSlotsForNewDeliveries(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		i := w.start(func(c *outbound.Config) { c.SendsAtOnce = 64 })
		for range 400 { // tenants whose endpoint is slow to fail, each with one retry under way
			s := w.subscribe(newTenant(), 25*time.Second, answered(404))
			w.store(s, time.Time{})
		}
		w.set(func(q *deliveryQueue) {
			for _, r := range q.rows {
				r.RetryCount, r.Status = 1, failed
			}
		})
		w.wakeAll()
		w.pass(10 * time.Second)
		if n := i.Stats().Sending; n != 32 {
			t.Errorf("%d retries are under way, want half of 64", n)
		}
		quick := w.subscribe(newTenant(), time.Millisecond, nil)
		i.publish(quick, 1)
		w.pass(10 * time.Millisecond)
		w.want(quick, "what is new", statuses{success: 1})
	})
}

func TestAPausedSubscriptionWithAMillionDeliveriesCostsNothing(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		s := w.subscribe(newTenant(), time.Millisecond, nil, func(s *eventhook.Subscription) { s.Status = eventhook.SubscriptionPaused })
		const many = 20_000 // to the dispatcher it is all the same
		w.backlog(s, many)
		i := w.start()
		w.pass(time.Hour + 500*time.Millisecond)
		if w.stats().claims != 0 || w.stats().hops > 3700 {
			t.Errorf("%d claims and %d hops in an hour, want none and a hop each second", w.stats().claims, w.stats().hops)
		}
		w.alter(s, func(s *eventhook.Subscription) { s.Status = eventhook.SubscriptionActive })
		i.TenantChanged(s.TenantID)
		w.pass(50 * time.Millisecond)
		if w.counts(s.ID)[success] == 0 {
			t.Error("nothing is sent at once after the pause")
		}
		w.pass(time.Minute)
		w.want(s, "after the pause", statuses{success: many})
	})
}

func TestTwoInstancesNeverSendADeliveryTwiceWhileItsLeaseHolds(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.set(func(q *deliveryQueue) { q.answer = 3 * time.Millisecond })
		a, b := w.start(), w.start()
		tenant := newTenant()
		var subs []*eventhook.Subscription
		for n := range 50 {
			subs = append(subs, w.subscribe(tenant, time.Duration(n)*time.Millisecond, nil))
		}
		const each = 2000
		for n := range each / 20 {
			for k, s := range subs {
				if (n+k)%3 == 0 {
					w.backlog(s, 20)
				} else {
					[]*instance{a, b}[k%2].publish(s, 20)
				}
			}
			if n%10 == 0 { // both have most of it in memory now and then
				w.pass(time.Second)
			}
		}
		w.pass(10 * time.Minute)
		for _, s := range subs {
			w.want(s, "in the end", statuses{success: each})
			if n := w.seen(s).twice(); n != 0 {
				t.Errorf("%d were sent twice", n)
			}
		}
		if w.stats().lost != 0 {
			t.Errorf("%d leases were lost", w.stats().lost)
		}
	})
}

// Two instances share one rate limit.
func TestInstancesShareARateLimit(t *testing.T) {
	for _, rate := range []int{1, 10, 200, 3000} {
		inWorld(t, func(t *testing.T, w *world) {
			w.set(func(q *deliveryQueue) { q.answer = 2 * time.Millisecond })
			s := w.subscribe(newTenant(), time.Millisecond, nil, func(s *eventhook.Subscription) { s.RatePerSecond, s.MaxInFlight = rate, 50 })
			a, b := w.start(), w.start()
			w.backlog(s, rate*40)
			began := time.Now()
			for range 100 { // and fresh ones
				a.publish(s, 1)
				b.publish(s, 1)
			}
			w.pass(25 * time.Second)
			sent := inWindow(w.seen(s).times, began.Add(5*time.Second), began.Add(25*time.Second))
			if want := 20 * rate; sent < want*9/10 || sent > want*11/10 {
				t.Errorf("%d/s: sent %d in 20 s, want %d within 10 %%", rate, sent, want)
			}
			for second := range 20 {
				from := began.Add(time.Duration(second) * time.Second)
				if n := inWindow(w.seen(s).times, from, from.Add(time.Second)); n > max(rate+1, rate*11/10) {
					t.Errorf("%d/s: sent %d in one second", rate, n)
				}
			}
			if n := w.seen(s).twice(); n != 0 {
				t.Errorf("%d were sent twice", n)
			}
		})
	}
}

func inWindow(times []time.Time, from, to time.Time) (n int) {
	for _, at := range times {
		if !at.Before(from) && at.Before(to) {
			n++
		}
	}
	return n
}

func TestASingleRateLimitedDeliveryIsNotDelayed(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		i := w.start()
		s := w.subscribe(newTenant(), time.Millisecond, nil, func(s *eventhook.Subscription) { s.RatePerSecond = 5 })
		for range 10 {
			i.publish(s, 1)
			w.pass(time.Second)
		}
		if p := w.seen(s).percentile(100); p > 5*time.Millisecond {
			t.Errorf("it took %s, want no more than its endpoint", p)
		}
	})
}

// Times far ahead, as when the rate was lower before, are not waited for with a
// lease.
func TestDeliveriesThatCannotBeSentWithinTheirLeaseAreReleased(t *testing.T) {
	inWorld(t, func(_ *testing.T, w *world) {
		i := w.start()
		s := w.subscribe(newTenant(), 0, nil, func(s *eventhook.Subscription) { s.RatePerSecond = 5 })
		w.set(func(q *deliveryQueue) { q.paced[s.ID] = time.Now().Add(10 * time.Minute) })
		i.publish(s, 5)
		w.pass(time.Second)
		w.want(s, "meanwhile", statuses{pending: 5})
		w.pass(11 * time.Minute)
		w.want(s, "then", statuses{success: 5})
	})
}

func TestRateLimitedDeliveriesSurviveADatabaseOutage(t *testing.T) {
	inWorld(t, func(_ *testing.T, w *world) {
		i := w.start()
		s := w.subscribe(newTenant(), 0, nil, func(s *eventhook.Subscription) { s.RatePerSecond = 5 })
		w.set(func(q *deliveryQueue) { q.away = true })
		i.publish(s, 5)
		w.pass(10 * time.Second)
		w.want(s, "while it is away", statuses{acquired: 5})
		w.set(func(q *deliveryQueue) { q.away = false })
		w.pass(5 * time.Second)
		w.want(s, "when it is back", statuses{success: 5})
	})
}

func TestMemoryIsBounded(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		i := w.start(func(c *outbound.Config) { c.QueueDeliveries = 1000 })
		total := 0
		for range 4 {
			tenant := newTenant()
			for range 50 {
				s := w.subscribe(tenant, 20*time.Second, nil)
				w.backlog(s, 100)
				n, _ := i.Reserve(outbound.Scheduled(s), 100)
				if n > 125 {
					t.Errorf("one subscription was granted %d of 1000", n)
				}
				total += n
			}
		}
		w.wakeAll()
		w.pass(10 * time.Second)
		if n := i.Stats(); total+n.Waiting+n.Sending > 1000 {
			t.Errorf("%d are reserved, and %d in memory, want 1000 at most", total, n.Waiting+n.Sending)
		}
	})
}

func TestNoDestinationUsesAllOfTheMemory(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		i := w.start(func(c *outbound.Config) { c.QueueDeliveries = 400 })
		hog, all := newTenant(), 0
		for range 50 {
			n, _ := i.Reserve(outbound.Scheduled(w.subscribe(hog, 0, nil)), 100)
			if n > 50 {
				t.Errorf("one subscription was granted %d, want an eighth of 400", n)
			}
			all += n
		}
		if all != 200 {
			t.Errorf("one tenant was granted %d, want half of 400", all)
		}
		if n, _ := i.Reserve(outbound.Scheduled(w.subscribe(newTenant(), 0, nil)), 50); n != 50 {
			t.Errorf("another was granted %d, want all of 50", n)
		}
	})
}

// Deliveries that have waited longer in the database do not wait for new deliveries.
func TestABacklogGetsHalfOfTheMemory(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		i := w.start()
		s := w.subscribe(newTenant(), time.Second, nil)
		w.backlog(s, 300)
		w.wakeAll()
		w.pass(time.Second)
		for range 20 {
			w.pass(100 * time.Millisecond)
			i.publish(s, 50)
		}
		old, all := 0, 0
		w.pass(10 * time.Second)
		for id := range w.seen(s).sent {
			if all++; w.row(id).Event.ID.Time().Before(time.Now().Add(-12 * time.Second)) {
				old++
			}
		}
		if old < all*9/10 {
			t.Errorf("%d of the first %d were of the backlog, want nearly all", old, all)
		}
	})
}

func TestBytesAreBounded(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		i := w.start(func(c *outbound.Config) { c.QueueBytes = 1 << 20 })
		tenant := newTenant()
		bytes := 0
		for range 100 {
			s := w.subscribe(tenant, 20*time.Second, nil)
			if n, until := i.Reserve(outbound.Scheduled(s), 1); n == 1 {
				d := w.store(s, until)
				d.Event.Body = make([]byte, 100<<10)
				bytes += len(d.Event.Body)
				i.Enqueue([]*eventhook.Delivery{d})
			}
		}
		if bytes > 1<<20 || bytes < 400<<10 {
			t.Errorf("%d bytes are in memory, want about half of 1 MiB for one tenant", bytes)
		}
		w.pass(time.Minute)
		s := w.subscribe(tenant, 0, nil)
		if n, _ := i.Reserve(outbound.Scheduled(s), 1); n != 1 {
			t.Errorf("no room when all is sent")
		}
		i.Release(eventhook.DestinationID(s.ID), 1)
	})
}

// What cannot be sent within its lease is given back, and made later; nothing
// is sent when its lease is nearly over.
func TestNothingIsSentBeyondItsLease(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a, b := w.start(), w.start()
		s := w.subscribe(newTenant(), 20*time.Second, nil, func(s *eventhook.Subscription) { s.MaxInFlight = 2 })
		a.publish(s, 60)
		b.publish(s, 40)
		w.pass(30 * time.Minute)
		w.want(s, "in the end", statuses{success: 100})
		if n := w.seen(s).twice(); n != 0 || w.stats().lost != 0 {
			t.Errorf("%d were sent twice and %d leases lost, want none", n, w.stats().lost)
		}
		if w.stats().released > 200 {
			t.Errorf("%d were given back to deliver 100", w.stats().released)
		}
	})
}

// A lease of 60 s, of which 30 s are to send in, has 22.5 s to wait: the rest is
// for the outcome to be written.
func TestALeaseLeavesTimeForTheOutcome(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		i := w.start()
		s := w.subscribe(newTenant(), 10*time.Second, nil, func(s *eventhook.Subscription) { s.MaxInFlight = 1 })
		i.publish(s, 4)
		w.pass(time.Minute)
		if n := w.stats().released; n != 1 {
			t.Errorf("%d were given back, want the one that would begin after 30 s", n)
		}
		w.want(s, "in the end", statuses{success: 4})
	})
}

func TestReservedMemorySurvivesASweep(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		i := w.start()
		s := w.subscribe(newTenant(), 0, nil)
		i.Reserve(outbound.Scheduled(s), 1)
		w.pass(20 * time.Minute)
		if _, known := i.Status(eventhook.DestinationID(s.ID)); !known {
			t.Error("a lane with reserved room is forgotten")
		}
		i.Release(eventhook.DestinationID(s.ID), 1)
	})
}

func TestRemovedDestinationsAreNotCountedAsOpen(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		i := w.start()
		s := w.subscribe(newTenant(), 0, refused, func(s *eventhook.Subscription) { s.Retry.MaxRetries = new(0) })
		w.backlog(s, 8)
		w.pass(10 * time.Second)
		w.want(s, "all are given up", statuses{dead: 8})
		before := i.Stats().Open
		w.pass(15 * time.Minute)
		if n := i.Stats().Open; before != 1 || n != 0 {
			t.Errorf("%d lanes were open, and %d are when it is forgotten; want 1 and 0", before, n)
		}
	})
}

func TestIdleDestinationsAreRemovedFromMemory(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		i := w.start()
		s := w.subscribe(newTenant(), 0, nil)
		i.publish(s, 1)
		w.pass(5 * time.Minute)
		if _, known := i.Status(eventhook.DestinationID(s.ID)); !known {
			t.Error("it is forgotten after 5 minutes")
		}
		w.pass(10 * time.Minute)
		if _, known := i.Status(eventhook.DestinationID(s.ID)); known {
			t.Error("it is known after 15 minutes, want it forgotten")
		}
		i.publish(s, 1)
		w.pass(time.Second)
		w.want(s, "afterwards", statuses{success: 2})
	})
}
