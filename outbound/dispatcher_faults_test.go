package outbound_test

import (
	"slices"
	"testing"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/outbound"
	"github.com/eventhook/eventhook/outbound/schedule"
)

// publishEvery publishes one event to each subscription at an interval for a duration.
func (i *instance) publishEvery(subs []*eventhook.Subscription, every, during time.Duration) {
	for end := time.Now().Add(during); time.Now().Before(end); time.Sleep(every) {
		for _, s := range subs {
			i.publish(s, 1)
		}
	}
	i.w.advance(time.Second)
}

// p99 returns the 99th percentile of the delivery times of all subs.
func (w *dispatcherHarness) p99(subs []*eventhook.Subscription) time.Duration {
	var all fakeReceiver
	for _, s := range subs {
		all.waits = append(all.waits, w.receiver(s).waits...)
	}
	return all.percentile(99)
}

// One receiver is down in one of several ways and has a backlog. Events are published to it and
// to 99 healthy receivers.
func TestADeadReceiverDoesNotDelayOtherReceivers(t *testing.T) {
	slow := func() eventhook.Attempt { return eventhook.Attempt{StatusCode: 200} }
	measure := func(t *testing.T, backlog int, takes time.Duration, answer func() eventhook.Attempt) (p99 time.Duration) {
		runDispatcherTest(t, func(t *testing.T, w *dispatcherHarness) {
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
			i.publishEvery(all, 50*time.Millisecond, 10*time.Second)
			p99 = w.p99(healthy)
			for _, s := range healthy {
				if got := w.counts(s.ID); len(got) != 1 || got[success] == 0 {
					t.Fatalf("a healthy receiver has the deliveries %v", got)
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
		{"responds with 500", 20 * time.Millisecond, respondsWith(500)},
		{"is slow", 29 * time.Second, slow},
	} {
		if with := measure(t, 100_000, c.takes, c.answer); with > without*3/2 {
			t.Errorf("%s: p99 of the healthy receivers is %s, want at most 1.5 × %s", c.claim, with, without)
		}
	}
}

func TestADeadReceiverIsProbed(t *testing.T) {
	runDispatcherTest(t, func(t *testing.T, w *dispatcherHarness) {
		s := w.subscribe(newTenant(), 0, refused)
		w.backlog(s, 10_000)
		i := w.start()
		w.advance(10 * time.Minute)
		got := w.receiver(s)
		if n := len(got.times); n > 4+5+30 || n < 20 {
			t.Errorf("got %d attempts in 10 minutes, want at most a probe every 30 s", n)
		}
		if state, _ := i.Status(eventhook.DestinationID(s.ID)); state.Circuit != schedule.Open || state.Slots != 1 || state.Waiting != 0 {
			t.Errorf("got the state %+v, want an open circuit and nothing in memory", state)
		}
		if n := i.Stats().Open; n != 1 {
			t.Errorf("%d circuits are open, want 1", n)
		}
		if n := w.stats().claimed[s.ID]; n > 64+2*len(got.times) {
			t.Errorf("%d deliveries were claimed for %d attempts, want about one for each", n, len(got.times))
		}
		gaveUp := w.counts(s.ID)[dead]
		if gaveUp < 3 {
			t.Errorf("%d deliveries are dead after %d attempts, want at least 3, so that the subscription is disabled eventually", gaveUp, len(got.times))
		}
		w.setResponse(s, time.Millisecond, nil)
		w.advance(2 * time.Minute)
		w.want(s, "after the recovery", statuses{success: 10_000 - gaveUp, dead: gaveUp})
		if state, _ := i.Status(eventhook.DestinationID(s.ID)); state.Circuit != schedule.Closed || i.Stats().Open != 0 {
			t.Errorf("got the state %+v, want a closed circuit", state)
		}
	})
}

// After a change of its URL a subscription does not wait for the next probe.
func TestAChangedURLIsTriedImmediately(t *testing.T) {
	runDispatcherTest(t, func(t *testing.T, w *dispatcherHarness) {
		s := w.subscribe(newTenant(), 0, refused, func(s *eventhook.Subscription) { s.URL = eventhook.NewSecret("https://old.example") })
		w.backlog(s, 100)
		i := w.start()
		for state, _ := i.Status(eventhook.DestinationID(s.ID)); time.Until(state.BackoffUntil) < 20*time.Second; state, _ = i.Status(eventhook.DestinationID(s.ID)) {
			w.advance(time.Second)
		}
		w.setResponse(s, time.Millisecond, nil)
		w.update(s, func(s *eventhook.Subscription) {
			s.Name = "another name"
			s.URL = eventhook.NewSecret("https://old.example")
		})
		i.TenantChanged(s.TenantID)
		w.advance(time.Second)
		if state, _ := i.Status(eventhook.DestinationID(s.ID)); state.Circuit != schedule.Open {
			t.Errorf("after a change of the name the circuit is %s, want open", state.Circuit)
		}
		w.update(s, func(s *eventhook.Subscription) { s.URL = eventhook.NewSecret("https://new.example") })
		i.TenantChanged(s.TenantID)
		w.advance(2 * time.Second)
		if got := w.counts(s.ID); got[success] < 90 || i.Stats().Open != 0 {
			t.Errorf("got deliveries %v, want nearly all delivered", got)
		}
	})
}

func TestAReceiverThatTimesOutUsesFewSlots(t *testing.T) {
	runDispatcherTest(t, func(t *testing.T, w *dispatcherHarness) {
		s := w.subscribe(newTenant(), time.Hour, nil)
		i := w.start()
		i.publish(s, 64)
		w.advance(5 * time.Minute)
		if got := w.receiver(s); got.maxRunning > 4 || len(got.times) > 20 {
			t.Errorf("%d concurrent and %d total attempts, want at most 4 and then one probe at a time", got.maxRunning, len(got.times))
		}
	})
}

func TestAFlappingReceiverEventuallyGetsAllDeliveries(t *testing.T) {
	runDispatcherTest(t, func(_ *testing.T, w *dispatcherHarness) {
		began := time.Now()
		s := w.subscribe(newTenant(), 5*time.Millisecond, func() eventhook.Attempt {
			if time.Since(began)%(20*time.Second) < 10*time.Second {
				return refused()
			}
			return eventhook.Attempt{StatusCode: 200}
		}, func(s *eventhook.Subscription) { s.Retry.MaxRetries = new(10) })
		i := w.start()
		i.publishEvery([]*eventhook.Subscription{s}, 100*time.Millisecond, 2*time.Minute)
		w.advance(5 * time.Minute)
		w.want(s, "at the end", statuses{success: 1200})
	})
}

// A tenant with many receivers that succeed after 25 s leaves free slots for other tenants.
func TestATenantWithSlowReceiversLeavesSlots(t *testing.T) {
	runDispatcherTest(t, func(t *testing.T, w *dispatcherHarness) {
		i := w.start()
		hog, other := newTenant(), newTenant()
		for range 1000 {
			s := w.subscribe(hog, 25*time.Second, nil)
			w.backlog(s, 10)
		}
		quick := w.subscribe(other, 10*time.Millisecond, nil)
		w.wakeAll()
		w.advance(5 * time.Second)
		if n := i.Stats().Sending; n < 200 || n > 256 {
			t.Errorf("one tenant has %d running sends, want about half of 512", n)
		}
		for range 100 {
			i.publish(quick, 1)
			w.advance(50 * time.Millisecond)
		}
		w.want(quick, "all deliveries", statuses{success: 100})
		if p := w.receiver(quick).percentile(99); p > 12*time.Millisecond {
			t.Errorf("another tenant's delivery took %s, want only the time of its receiver", p)
		}
	})
}

// Within a tenant, slow receivers leave slots for all other receivers.
func TestSlowReceiversLeaveSlotsToTheirTenantsOtherReceivers(t *testing.T) {
	runDispatcherTest(t, func(t *testing.T, w *dispatcherHarness) {
		i := w.start(func(c *outbound.Config) { c.SendsAtOnce = 64 })
		tenant := newTenant()
		for range 8 {
			w.backlog(w.subscribe(tenant, 25*time.Second, nil), 200)
		}
		quick := w.subscribe(tenant, 10*time.Millisecond, nil)
		w.wakeAll()
		w.advance(time.Minute)
		if n := i.Stats().Sending; n < 25 {
			t.Fatalf("%d sends are running, want nearly all of the tenant's 32", n)
		}
		for range 100 {
			i.publish(quick, 1)
			w.advance(50 * time.Millisecond)
		}
		w.want(quick, "all deliveries", statuses{success: 100})
		if p := w.receiver(quick).percentile(99); p > 12*time.Millisecond {
			t.Errorf("the delivery took %s, want only the time of its receiver", p)
		}
	})
}

// Retries use at most half of the slots, even if all receivers are down, so that new deliveries
// are sent.
func TestRetriesLeaveSlotsForNewDeliveries(t *testing.T) {
	runDispatcherTest(t, func(t *testing.T, w *dispatcherHarness) {
		i := w.start(func(c *outbound.Config) { c.SendsAtOnce = 64 })
		for range 400 { // tenants whose receiver fails slowly, each with one running retry
			s := w.subscribe(newTenant(), 25*time.Second, respondsWith(404))
			w.store(s, time.Time{})
		}
		w.set(func(q *deliveryQueue) {
			for _, r := range q.rows {
				r.RetryCount, r.Status = 1, failed
			}
		})
		w.wakeAll()
		w.advance(10 * time.Second)
		if n := i.Stats().Sending; n != 32 {
			t.Errorf("%d retries are running, want half of 64", n)
		}
		quick := w.subscribe(newTenant(), time.Millisecond, nil)
		i.publish(quick, 1)
		w.advance(10 * time.Millisecond)
		w.want(quick, "new deliveries", statuses{success: 1})
	})
}

func TestAPausedSubscriptionWithAMillionDeliveriesCostsNothing(t *testing.T) {
	runDispatcherTest(t, func(t *testing.T, w *dispatcherHarness) {
		s := w.subscribe(newTenant(), time.Millisecond, nil, func(s *eventhook.Subscription) { s.Status = eventhook.SubscriptionPaused })
		const many = 20_000 // the number makes no difference to the dispatcher
		w.backlog(s, many)
		i := w.start()
		w.advance(time.Hour + 500*time.Millisecond)
		if w.stats().claims != 0 || w.stats().listed > 3700 {
			t.Errorf("got %d claims and %d listed destinations in an hour, want 0 and one each second", w.stats().claims, w.stats().listed)
		}
		w.update(s, func(s *eventhook.Subscription) { s.Status = eventhook.SubscriptionActive })
		i.TenantChanged(s.TenantID)
		w.advance(50 * time.Millisecond)
		if w.counts(s.ID)[success] == 0 {
			t.Error("no delivery is sent immediately after the pause")
		}
		w.advance(time.Minute)
		w.want(s, "after the pause", statuses{success: many})
	})
}

func TestTwoInstancesNeverSendADeliveryTwiceWhileItsLeaseHolds(t *testing.T) {
	runDispatcherTest(t, func(t *testing.T, w *dispatcherHarness) {
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
			if n%10 == 0 { // so that sometimes both have most of it in memory
				w.advance(time.Second)
			}
		}
		w.advance(10 * time.Minute)
		for _, s := range subs {
			w.want(s, "at the end", statuses{success: each})
			if n := w.receiver(s).twice(); n != 0 {
				t.Errorf("%d deliveries were sent twice", n)
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
		runDispatcherTest(t, func(t *testing.T, w *dispatcherHarness) {
			w.set(func(q *deliveryQueue) { q.answer = 2 * time.Millisecond })
			s := w.subscribe(newTenant(), time.Millisecond, nil, func(s *eventhook.Subscription) { s.RatePerSecond, s.MaxInFlight = rate, 50 })
			a, b := w.start(), w.start()
			w.backlog(s, rate*40)
			began := time.Now()
			for range 100 { // and new deliveries
				a.publish(s, 1)
				b.publish(s, 1)
			}
			w.advance(25 * time.Second)
			sent := inWindow(w.receiver(s).times, began.Add(5*time.Second), began.Add(25*time.Second))
			if want := 20 * rate; sent < want*9/10 || sent > want*11/10 {
				t.Errorf("%d/s: sent %d in 20 s, want %d within 10 %%", rate, sent, want)
			}
			for second := range 20 {
				from := began.Add(time.Duration(second) * time.Second)
				if n := inWindow(w.receiver(s).times, from, from.Add(time.Second)); n > max(rate+1, rate*11/10) {
					t.Errorf("%d/s: sent %d in one second", rate, n)
				}
			}
			if n := w.receiver(s).twice(); n != 0 {
				t.Errorf("%d deliveries were sent twice", n)
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
	runDispatcherTest(t, func(t *testing.T, w *dispatcherHarness) {
		i := w.start()
		s := w.subscribe(newTenant(), time.Millisecond, nil, func(s *eventhook.Subscription) { s.RatePerSecond = 5 })
		for range 10 {
			i.publish(s, 1)
			w.advance(time.Second)
		}
		if p := w.receiver(s).percentile(100); p > 5*time.Millisecond {
			t.Errorf("the delivery took %s, want only the time of its receiver", p)
		}
	})
}

// Deliveries whose reserved send times are far ahead, for example because the rate was lower
// before, do not wait under a lease.
func TestDeliveriesThatCannotBeSentWithinTheirLeaseAreReleased(t *testing.T) {
	runDispatcherTest(t, func(_ *testing.T, w *dispatcherHarness) {
		i := w.start()
		s := w.subscribe(newTenant(), 0, nil, func(s *eventhook.Subscription) { s.RatePerSecond = 5 })
		w.set(func(q *deliveryQueue) { q.paced[s.ID] = time.Now().Add(10 * time.Minute) })
		i.publish(s, 5)
		w.advance(time.Second)
		w.want(s, "meanwhile", statuses{pending: 5})
		w.advance(11 * time.Minute)
		w.want(s, "then", statuses{success: 5})
	})
}

func TestRateLimitedDeliveriesSurviveADatabaseOutage(t *testing.T) {
	runDispatcherTest(t, func(_ *testing.T, w *dispatcherHarness) {
		i := w.start()
		s := w.subscribe(newTenant(), 0, nil, func(s *eventhook.Subscription) { s.RatePerSecond = 5 })
		w.set(func(q *deliveryQueue) { q.isDown = true })
		i.publish(s, 5)
		w.advance(10 * time.Second)
		w.want(s, "during the outage", statuses{acquired: 5})
		w.set(func(q *deliveryQueue) { q.isDown = false })
		w.advance(5 * time.Second)
		w.want(s, "after the outage", statuses{success: 5})
	})
}

func TestMemoryIsBounded(t *testing.T) {
	runDispatcherTest(t, func(t *testing.T, w *dispatcherHarness) {
		i := w.start(func(c *outbound.Config) { c.QueueDeliveries = 1000 })
		total := 0
		for range 4 {
			tenant := newTenant()
			for range 50 {
				s := w.subscribe(tenant, 20*time.Second, nil)
				w.backlog(s, 100)
				n, _ := i.Reserve(outbound.Scheduled(s), 100)
				if n > 125 {
					t.Errorf("one subscription got %d of 1000", n)
				}
				total += n
			}
		}
		w.wakeAll()
		w.advance(10 * time.Second)
		if n := i.Stats(); total+n.Waiting+n.Sending > 1000 {
			t.Errorf("%d deliveries are reserved and %d in memory, want at most 1000", total, n.Waiting+n.Sending)
		}
	})
}

func TestNoDestinationUsesAllOfTheMemory(t *testing.T) {
	runDispatcherTest(t, func(t *testing.T, w *dispatcherHarness) {
		i := w.start(func(c *outbound.Config) { c.QueueDeliveries = 400 })
		hog, all := newTenant(), 0
		for range 50 {
			n, _ := i.Reserve(outbound.Scheduled(w.subscribe(hog, 0, nil)), 100)
			if n > 50 {
				t.Errorf("one subscription got %d, want an eighth of 400", n)
			}
			all += n
		}
		if all != 200 {
			t.Errorf("one tenant got %d, want half of 400", all)
		}
		if n, _ := i.Reserve(outbound.Scheduled(w.subscribe(newTenant(), 0, nil)), 50); n != 50 {
			t.Errorf("another tenant got %d, want all 50", n)
		}
	})
}

// Deliveries that have waited longer in the database do not wait for new deliveries.
func TestABacklogGetsHalfOfTheMemory(t *testing.T) {
	runDispatcherTest(t, func(t *testing.T, w *dispatcherHarness) {
		i := w.start()
		s := w.subscribe(newTenant(), time.Second, nil)
		w.backlog(s, 300)
		w.wakeAll()
		w.advance(time.Second)
		for range 20 {
			w.advance(100 * time.Millisecond)
			i.publish(s, 50)
		}
		old, all := 0, 0
		w.advance(10 * time.Second)
		for id := range w.receiver(s).sent {
			if all++; w.row(id).Event.ID.Time().Before(time.Now().Add(-12 * time.Second)) {
				old++
			}
		}
		if old < all*9/10 {
			t.Errorf("%d of the first %d sends were of the backlog, want nearly all", old, all)
		}
	})
}

func TestBytesAreBounded(t *testing.T) {
	runDispatcherTest(t, func(t *testing.T, w *dispatcherHarness) {
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
		w.advance(time.Minute)
		s := w.subscribe(tenant, 0, nil)
		if n, _ := i.Reserve(outbound.Scheduled(s), 1); n != 1 {
			t.Errorf("no memory is free after all deliveries were sent")
		}
		i.Release(eventhook.DestinationID(s.ID), 1)
	})
}

// A delivery that cannot be sent within its lease is released and sent later. No delivery is sent
// shortly before its lease ends.
func TestNothingIsSentBeyondItsLease(t *testing.T) {
	runDispatcherTest(t, func(t *testing.T, w *dispatcherHarness) {
		a, b := w.start(), w.start()
		s := w.subscribe(newTenant(), 20*time.Second, nil, func(s *eventhook.Subscription) { s.MaxInFlight = 2 })
		a.publish(s, 60)
		b.publish(s, 40)
		w.advance(30 * time.Minute)
		w.want(s, "at the end", statuses{success: 100})
		if n := w.receiver(s).twice(); n != 0 || w.stats().lost != 0 {
			t.Errorf("%d deliveries were sent twice and %d leases were lost, want 0", n, w.stats().lost)
		}
		if w.stats().released > 200 {
			t.Errorf("%d deliveries were released to send 100, want fewer", w.stats().released)
		}
	})
}

// Of a lease of 60 s, 30 s are for the request and 22.5 s for waiting. The rest is for storing
// the outcome.
func TestALeaseLeavesTimeForTheOutcome(t *testing.T) {
	runDispatcherTest(t, func(t *testing.T, w *dispatcherHarness) {
		i := w.start()
		s := w.subscribe(newTenant(), 10*time.Second, nil, func(s *eventhook.Subscription) { s.MaxInFlight = 1 })
		i.publish(s, 4)
		w.advance(time.Minute)
		if n := w.stats().released; n != 1 {
			t.Errorf("%d deliveries were released, want 1: the one whose send would begin after 30 s", n)
		}
		w.want(s, "at the end", statuses{success: 4})
	})
}

func TestReservedMemorySurvivesASweep(t *testing.T) {
	runDispatcherTest(t, func(t *testing.T, w *dispatcherHarness) {
		i := w.start()
		s := w.subscribe(newTenant(), 0, nil)
		i.Reserve(outbound.Scheduled(s), 1)
		w.advance(20 * time.Minute)
		if _, known := i.Status(eventhook.DestinationID(s.ID)); !known {
			t.Error("a destination with reserved memory was removed")
		}
		i.Release(eventhook.DestinationID(s.ID), 1)
	})
}

func TestRemovedDestinationsAreNotCountedAsOpen(t *testing.T) {
	runDispatcherTest(t, func(t *testing.T, w *dispatcherHarness) {
		i := w.start()
		s := w.subscribe(newTenant(), 0, refused, func(s *eventhook.Subscription) { s.Retry.MaxRetries = new(0) })
		w.backlog(s, 8)
		w.advance(10 * time.Second)
		w.want(s, "all deliveries are dead", statuses{dead: 8})
		before := i.Stats().Open
		w.advance(15 * time.Minute)
		if n := i.Stats().Open; before != 1 || n != 0 {
			t.Errorf("%d circuits were open before and %d after the removal, want 1 and 0", before, n)
		}
	})
}

func TestIdleDestinationsAreRemovedFromMemory(t *testing.T) {
	runDispatcherTest(t, func(t *testing.T, w *dispatcherHarness) {
		i := w.start()
		s := w.subscribe(newTenant(), 0, nil)
		i.publish(s, 1)
		w.advance(5 * time.Minute)
		if _, known := i.Status(eventhook.DestinationID(s.ID)); !known {
			t.Error("the destination was removed after 5 minutes")
		}
		w.advance(10 * time.Minute)
		if _, known := i.Status(eventhook.DestinationID(s.ID)); known {
			t.Error("the destination is in memory after 15 minutes, want it removed")
		}
		i.publish(s, 1)
		w.advance(time.Second)
		w.want(s, "afterwards", statuses{success: 2})
	})
}
