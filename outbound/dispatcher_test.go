package outbound_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/outbound"
)

type statuses = map[eventhook.DeliveryStatus]int

const (
	success  = eventhook.DeliverySuccess
	failed   = eventhook.DeliveryFailed
	dead     = eventhook.DeliveryDead
	pending  = eventhook.DeliveryPending
	acquired = eventhook.DeliveryAcquired
)

func TestFreshDeliveriesAreSentFromMemory(t *testing.T) {
	runDispatcherTest(t, func(t *testing.T, w *dispatcherHarness) {
		i := w.start()
		s := w.subscribe(newTenant(), 3*time.Millisecond, nil)
		i.publish(s, 20)
		w.advance(30 * time.Millisecond)
		w.want(s, "after a short time", statuses{success: 20})
		if w.stats().claims != 0 {
			t.Errorf("%d claims, want none", w.stats().claims)
		}
		if i.written != 20 || i.attempted[""] != 20 {
			t.Errorf("observer: got %d attempts and %d settled deliveries, want 20 each", i.attempted[""], i.written)
		}
	})
}

func TestDeliveriesThatNoInstanceHoldsAreClaimed(t *testing.T) {
	runDispatcherTest(t, func(t *testing.T, w *dispatcherHarness) {
		s := w.subscribe(newTenant(), time.Millisecond, nil)
		w.backlog(s, 3000)
		w.start()
		w.advance(2 * time.Second)
		w.want(s, "all due deliveries", statuses{success: 3000})
		w.advance(time.Minute)
		claims := w.stats().claims
		w.backlog(s, 1)
		w.advance(1100 * time.Millisecond)
		w.want(s, "after a poll", statuses{success: 3001})
		w.backlog(s, 1)
		w.wakeAll()
		w.advance(50 * time.Millisecond)
		w.want(s, "after a notification", statuses{success: 3002})
		if claims > 100 {
			t.Errorf("%d claims for 3000 deliveries, want many deliveries per claim", claims)
		}
	})
}

func TestManyWakesCauseFewReads(t *testing.T) {
	runDispatcherTest(t, func(t *testing.T, w *dispatcherHarness) {
		w.start()
		before := w.stats().lists
		for range 1000 {
			w.wakeAll()
			w.advance(time.Millisecond)
		}
		if n := w.stats().lists - before; n > 110 {
			t.Errorf("%d reads of the database in a second, want at most one each 10 ms", n)
		}
	})
}

func TestRetriesFollowTheSchedule(t *testing.T) {
	runDispatcherTest(t, func(t *testing.T, w *dispatcherHarness) {
		i := w.start()
		s := w.subscribe(newTenant(), 0, respondsWith(500), func(s *eventhook.Subscription) { s.Retry.MaxRetries = new(4) })
		began := time.Now()
		d := i.publish(s, 1)[0]
		w.advance(time.Minute)
		var at []time.Duration
		for _, sent := range w.receiver(s).times {
			at = append(at, sent.Sub(began).Truncate(time.Second))
		}
		// Each attempt may be late by a poll. After the fourth failure, attempts wait for a probe.
		if len(at) != 5 || at[1] > 2*time.Second || at[2] < 3*time.Second || at[3] < 7*time.Second || at[4] < 15*time.Second || at[4] > 19*time.Second {
			t.Errorf("sent after %v, want about 0, 1, 3, 7 and 15 s", at)
		}
		if r := w.row(d.ID); r.Status != dead || r.Attempts != 5 || r.RetryCount != 4 || r.LastError != "the receiver answered 500" {
			t.Errorf("got %s, %d attempts, %d retries, %q; want it dead after 5 and 4", r.Status, r.Attempts, r.RetryCount, r.LastError)
		}
	})
}

// A retry of this instance is in memory and does not wait for a poll.
func TestRetriesAreOnTime(t *testing.T) {
	runDispatcherTest(t, func(t *testing.T, w *dispatcherHarness) {
		i := w.start()
		s := w.subscribe(newTenant(), 0, respondsWith(404), func(s *eventhook.Subscription) { s.Retry.InitialDelayMS = 100 })
		w.advance(time.Millisecond)
		i.publish(s, 1)
		began := time.Now()
		w.advance(time.Minute)
		for n, at := range w.receiver(s).times {
			want := 100 * time.Millisecond * (1<<n - 1) // after 0, 100, 300, 700, 1500 and 3100 ms
			if late := at.Sub(began) - want; late < 0 || late > 10*time.Millisecond {
				t.Errorf("attempt %d was %s late", n+1, late)
			}
		}
		if n := len(w.receiver(s).times); n != 6 {
			t.Errorf("%d attempts, want 6", n)
		}
	})
}

func TestOldDeliveriesDieUnsent(t *testing.T) {
	runDispatcherTest(t, func(t *testing.T, w *dispatcherHarness) {
		s := w.subscribe(newTenant(), 0, nil)
		d := w.storeAt(s, time.Now().Add(-25*time.Hour), time.Time{})
		restarted := w.storeAt(s, time.Now().Add(-25*time.Hour), time.Time{})
		w.set(func(q *deliveryQueue) { at := time.Now(); q.rows[restarted.ID].RestartedAt = &at })
		w.start()
		w.advance(time.Second)
		if r := w.row(d.ID); r.Status != dead || r.Attempts != 0 || r.LastError != "not sent: it is older than 24h" {
			t.Errorf("got %s after %d attempts (%q), want it dead unsent", r.Status, r.Attempts, r.LastError)
		}
		if r := w.row(restarted.ID); r.Status != success {
			t.Errorf("restarted delivery of an equally old event: got %s, want it delivered", r.Status)
		}
	})
}

func TestDeliveriesWhoseDataWasDeletedBecomeDead(t *testing.T) {
	runDispatcherTest(t, func(t *testing.T, w *dispatcherHarness) {
		s := w.subscribe(newTenant(), 0, nil)
		purged, empty := w.store(s, time.Time{}), w.store(s, time.Time{})
		purged.Event.Body, purged.Event.BodySize = nil, 100
		empty.Event.Body = nil
		w.start()
		w.advance(time.Second)
		if r := w.row(purged.ID); r.Status != dead || r.Attempts != 0 || r.LastError != "not sent: the event's data is past its retention" {
			t.Errorf("got %s after %d attempts (%q), want it dead unsent", r.Status, r.Attempts, r.LastError)
		}
		if r := w.row(empty.ID); r.Status != success {
			t.Errorf("delivery of an event with an empty body: got %s, want success", r.Status)
		}
	})
}

func TestStatus410DisablesTheSubscription(t *testing.T) {
	runDispatcherTest(t, func(t *testing.T, w *dispatcherHarness) {
		i := w.start()
		s := w.subscribe(newTenant(), 0, respondsWith(410))
		d := i.publish(s, 1)[0]
		w.advance(time.Second)
		if r := w.row(d.ID); r.Status != dead || r.Attempts != 1 || w.stats().disabled[s.ID] != "the receiver answered 410 Gone" {
			t.Errorf("got %s after %d attempts, disabled for %q", r.Status, r.Attempts, w.stats().disabled[s.ID])
		}
	})
}

// A Retry-After delays all deliveries of the destination, not only the one that got it.
func TestRetryAfterDelaysTheWholeDestination(t *testing.T) {
	for _, status := range []int{429, 503} {
		runDispatcherTest(t, func(t *testing.T, w *dispatcherHarness) {
			i := w.start()
			s := w.subscribe(newTenant(), 10*time.Millisecond, respondsWithRetryAfter(status, 10*time.Minute))
			i.publish(s, 100)
			w.advance(time.Second)
			before := w.receiver(s)
			if n := len(before.times); n > 4 {
				t.Errorf("%d: sent %d before the delay began, want at most the running sends", status, n)
			}
			if n := i.Stats(); n.Waiting > 0 {
				t.Errorf("%d: %d deliveries wait in memory during the delay, want 0", status, n.Waiting)
			}
			i.publish(s, 1)
			w.backlog(s, 1)
			w.advance(9 * time.Minute)
			if n := len(w.receiver(s).times); n != len(before.times) {
				t.Errorf("%d: sent %d during the delay, want 0", status, n-len(before.times))
			}
			w.setResponse(s, 0, nil)
			w.advance(3 * time.Minute)
			w.want(s, "afterwards", statuses{success: 102})
		})
	}
}

func TestPausedSubscriptionsGetNothingFromMemory(t *testing.T) {
	runDispatcherTest(t, func(t *testing.T, w *dispatcherHarness) {
		i := w.start()
		s := w.subscribe(newTenant(), time.Second, nil)
		i.publish(s, 60)
		w.advance(500 * time.Millisecond)
		paused := w.update(s, func(s *eventhook.Subscription) { s.Status = eventhook.SubscriptionPaused })
		i.TenantChanged(s.TenantID)
		w.advance(100 * time.Millisecond)
		w.want(s, "immediately all deliveries except the running ones are released", statuses{acquired: 4, pending: 56})
		w.advance(time.Second)
		w.want(s, "the running sends are delivered", statuses{success: 4, pending: 56})
		if n, _ := i.Reserve(outbound.Scheduled(paused), 1); n != 0 {
			t.Errorf("Reserve returned memory for a paused subscription")
		}
		claims := w.stats().claims
		w.advance(time.Minute)
		if w.stats().claims != claims {
			t.Errorf("%d claims during the pause, want 0", w.stats().claims-claims)
		}
		w.update(s, func(s *eventhook.Subscription) { s.Status = eventhook.SubscriptionActive })
		i.TenantChanged(s.TenantID)
		w.advance(time.Minute)
		w.want(s, "after the pause", statuses{success: 60})
		if n := w.receiver(s).twice(); n != 0 {
			t.Errorf("%d deliveries were sent twice", n)
		}
	})
}

// This instance gets no notification. It reads the subscription before each send.
func TestAPauseIsSeenBeforeEachSend(t *testing.T) {
	runDispatcherTest(t, func(_ *testing.T, w *dispatcherHarness) {
		i := w.start()
		s := w.subscribe(newTenant(), time.Second, nil)
		i.publish(s, 60)
		w.advance(500 * time.Millisecond)
		w.update(s, func(s *eventhook.Subscription) { s.Status = eventhook.SubscriptionPaused })
		w.advance(time.Minute)
		w.want(s, "only the running sends are delivered", statuses{success: 4, pending: 56})
	})
}

func TestDeliveriesOfAgentsAreNotClaimed(t *testing.T) {
	runDispatcherTest(t, func(t *testing.T, w *dispatcherHarness) {
		i := w.start()
		s := w.subscribe(newTenant(), 0, nil, func(s *eventhook.Subscription) { s.TargetLabels = []string{"env:prod"} })
		lost := w.subscribe(s.TenantID, 0, nil, func(s *eventhook.Subscription) { s.SecretsLost = true })
		i.publish(s, 3)
		i.publish(lost, 3)
		w.advance(10*time.Minute + time.Second)
		w.want(s, "subscription of an agent", statuses{pending: 3})
		if n := w.expired[eventhook.DestinationID(s.ID)]; n < 9 || n > 11 || len(w.expired) != 1 {
			t.Errorf("Expire was called %d times in ten minutes, and for %d destinations; want once a minute for one", n, len(w.expired))
		}
		w.want(lost, "subscription whose secrets are lost", statuses{pending: 3})
	})
}

func TestDeliveriesOfDeletedSubscriptionsDie(t *testing.T) {
	runDispatcherTest(t, func(t *testing.T, w *dispatcherHarness) {
		other := w.subscribe(newTenant(), time.Millisecond, nil)
		s := w.subscribe(other.TenantID, time.Second, nil)
		i := w.start()
		i.publish(s, 50)
		w.backlog(s, 20_000)
		w.advance(500 * time.Millisecond)
		w.unsubscribe(s)
		i.TenantChanged(s.TenantID)
		i.publish(other, 50)
		w.advance(100 * time.Millisecond)
		w.want(other, "other destinations meanwhile", statuses{success: 50})
		w.advance(time.Minute)
		got := w.counts(s.ID)
		if got[dead]+got[success] != 20_050 || got[dead] < 20_000 {
			t.Errorf("got deliveries %v, want nearly all dead", got)
		}
	})
}

// No instance has the subscription in memory. Deliveries that were leased to a killed instance or
// wait for a retry become dead when they are due.
func TestDeliveriesOfADeletedSubscriptionBecomeDeadLater(t *testing.T) {
	runDispatcherTest(t, func(_ *testing.T, w *dispatcherHarness) {
		s := w.subscribe(newTenant(), 0, nil)
		w.backlog(s, 3)
		w.store(s, time.Now().Add(35*time.Second))
		w.unsubscribe(s)
		w.start()
		w.advance(2 * time.Second)
		w.want(s, "due deliveries", statuses{dead: 3, acquired: 1})
		w.advance(45 * time.Second)
		w.want(s, "deliveries that are due later", statuses{dead: 4})
	})
}

func TestWaitingDeliveriesOfADeletedSubscriptionDieAtOnce(t *testing.T) {
	runDispatcherTest(t, func(_ *testing.T, w *dispatcherHarness) {
		i := w.start()
		s := w.subscribe(newTenant(), 20*time.Second, nil, func(s *eventhook.Subscription) { s.MaxInFlight = 1 })
		i.publish(s, 10)
		w.advance(time.Second)
		w.unsubscribe(s)
		i.TenantChanged(s.TenantID)
		w.advance(2 * time.Second)
		w.want(s, "all deliveries except the running one", statuses{acquired: 1, dead: 9})
	})
}

// This instance gets no notification. It reads the subscription when a delivery is due.
func TestAPauseIsSeenWhenDeliveriesAreDue(t *testing.T) {
	runDispatcherTest(t, func(_ *testing.T, w *dispatcherHarness) {
		i := w.start()
		s := w.subscribe(newTenant(), 20*time.Second, nil, func(s *eventhook.Subscription) { s.MaxInFlight = 1 })
		i.publish(s, 10)
		w.advance(time.Second)
		w.update(s, func(s *eventhook.Subscription) { s.Status = eventhook.SubscriptionPaused })
		w.backlog(s, 1)
		w.advance(2 * time.Second)
		w.want(s, "all deliveries except the running one are released", statuses{acquired: 1, pending: 10})
	})
}

// One round reads 4096 destinations with due deliveries. If none of them can be sent to, later
// rounds reach the next destinations.
func TestDestinationsThatCannotBeSentToDoNotBlockOthers(t *testing.T) {
	runDispatcherTest(t, func(_ *testing.T, w *dispatcherHarness) {
		tenant := newTenant()
		for range 4200 {
			w.backlog(w.subscribe(tenant, 0, nil, func(s *eventhook.Subscription) { s.Status = eventhook.SubscriptionPaused }), 1)
		}
		w.advance(time.Millisecond)
		last := w.subscribe(tenant, 0, nil)
		w.backlog(last, 10)
		w.start()
		w.advance(3 * time.Second)
		w.want(last, "last subscription", statuses{success: 10})
	})
}

func TestStopCompletesSendsAndReleasesTheRemainingDeliveries(t *testing.T) {
	runDispatcherTest(t, func(t *testing.T, w *dispatcherHarness) {
		i := w.start()
		s := w.subscribe(newTenant(), 2*time.Second, nil)
		i.publish(s, 60)
		w.advance(time.Second)
		began := time.Now()
		i.stop()
		if took := time.Since(began); took > 1100*time.Millisecond {
			t.Errorf("the stop took %s, want the time of the running sends", took)
		}
		got := w.counts(s.ID)
		if got[acquired] != 0 || got[success] != 4 || got[pending] != 56 {
			t.Errorf("got deliveries %v, want 4 delivered and the others released", got)
		}
		if n, _ := i.Reserve(outbound.Scheduled(s), 1); n != 0 {
			t.Errorf("Reserve returned memory after the stop")
		}
	})
}

func TestStopReturnsAtTheDrainTimeout(t *testing.T) {
	runDispatcherTest(t, func(t *testing.T, w *dispatcherHarness) {
		i := w.start()
		s := w.subscribe(newTenant(), 25*time.Second, nil)
		i.publish(s, 10)
		w.advance(time.Second)
		began := time.Now()
		i.stop()
		if took := time.Since(began); took != 10*time.Second {
			t.Errorf("the stop took %s, want the drain timeout", took)
		}
		w.want(s, "the cancelled send is released", statuses{pending: 10})
	})
}

func TestAnAnswerAtTheEndOfTheDrainCounts(t *testing.T) {
	runDispatcherTest(t, func(_ *testing.T, w *dispatcherHarness) {
		i := w.start()
		s := w.subscribe(newTenant(), 0, func() eventhook.Attempt {
			time.Sleep(12 * time.Second) // ignores ctx
			return eventhook.Attempt{StatusCode: 200}
		})
		i.publish(s, 1)
		w.advance(time.Second)
		i.stop()
		w.want(s, "after the stop", statuses{success: 1})
	})
}

func TestDeliveriesEnqueuedDuringAStopAreReleased(t *testing.T) {
	runDispatcherTest(t, func(_ *testing.T, w *dispatcherHarness) {
		i := w.start()
		s := w.subscribe(newTenant(), 5*time.Second, nil)
		i.publish(s, 1)
		granted, until := i.Reserve(outbound.Scheduled(s), 5)
		w.advance(time.Second)
		go i.stop()
		w.advance(time.Second)
		var list []*eventhook.Delivery
		for range granted {
			list = append(list, w.store(s, until))
		}
		i.Enqueue(list)
		w.advance(10 * time.Second)
		w.want(s, "after the stop", statuses{success: 1, pending: 5})
	})
}

func TestDeliveriesClaimedDuringAStopAreReleased(t *testing.T) {
	runDispatcherTest(t, func(t *testing.T, w *dispatcherHarness) {
		i := w.start()
		s := w.subscribe(newTenant(), 5*time.Second, nil)
		w.backlog(s, 100)
		w.set(func(q *deliveryQueue) { q.late = 20 * time.Millisecond })
		w.wakeAll()
		w.advance(10 * time.Millisecond)
		i.stop()
		if got := w.counts(s.ID); got[acquired] != 0 || w.stats().claims == 0 {
			t.Errorf("got deliveries %v after %d claims, want 0 leased", got, w.stats().claims)
		}
	})
}

// While the queue memory is full, a destination waits, and it reserves memory as soon as
// some is freed.
func TestFreedMemoryIsUsedAtOnce(t *testing.T) {
	runDispatcherTest(t, func(_ *testing.T, w *dispatcherHarness) {
		w.start(func(c *outbound.Config) { c.QueueDeliveries = 100 })
		tenant := newTenant()
		var subs []*eventhook.Subscription
		for range 100 {
			s := w.subscribe(tenant, 20*time.Millisecond, nil)
			w.backlog(s, 10)
			subs = append(subs, s)
		}
		w.wakeAll()
		w.advance(3 * time.Second)
		for _, s := range subs {
			w.want(s, "after 3 s", statuses{success: 10})
		}
	})
}

func TestReleasedReservationsFreeMemory(t *testing.T) {
	runDispatcherTest(t, func(t *testing.T, w *dispatcherHarness) {
		i := w.start(func(c *outbound.Config) { c.QueueDeliveries = 500 })
		s := w.subscribe(newTenant(), 0, nil)
		for range 100 {
			granted, _ := i.Reserve(outbound.Scheduled(s), 1000)
			if granted == 0 {
				t.Fatal("no memory is free")
			}
			i.Release(eventhook.DestinationID(s.ID), granted)
			w.advance(0) // a poll may have reserved a part of it meanwhile
		}
	})
}

// A destination may request a second claim before its first one is sent to the database.
// Both become one claim, and no reserved memory is lost.
func TestADestinationHasAtMostOneClaim(t *testing.T) {
	runDispatcherTest(t, func(t *testing.T, w *dispatcherHarness) {
		i := w.create() // the claim loop would claim the memory that is released between the two requests
		s := w.subscribe(newTenant(), time.Second, nil)
		granted, _ := i.Reserve(outbound.Scheduled(s), 1000)
		i.Release(eventhook.DestinationID(s.ID), granted/2)
		w.backlog(s, 1000)
		i.ClaimAround(t.Context(), s, func() { i.Release(eventhook.DestinationID(s.ID), granted-granted/2) })
		if got := w.stats().claims; got != 1 {
			t.Errorf("got %d claims, want 1", got)
		}
		i.start()
		w.advance(10 * time.Minute)
		w.want(s, "at the end", statuses{success: 1000})
	})
}

func TestAnotherInstanceSendsAKilledInstancesDeliveries(t *testing.T) {
	runDispatcherTest(t, func(t *testing.T, w *dispatcherHarness) {
		s := w.subscribe(newTenant(), time.Millisecond, nil)
		for range 500 { // leased to a killed instance
			w.store(s, time.Now().Add(testLease+s.Timeout()))
		}
		w.start()
		w.advance(testLease + s.Timeout() - time.Second)
		w.want(s, "before the leases end", statuses{acquired: 500})
		w.advance(3 * time.Second)
		w.want(s, "then", statuses{success: 500})
		if n := w.receiver(s).twice(); n != 0 {
			t.Errorf("%d deliveries were sent twice", n)
		}
	})
}

func TestOutcomesSurviveADatabaseOutage(t *testing.T) {
	runDispatcherTest(t, func(t *testing.T, w *dispatcherHarness) {
		i := w.start()
		s := w.subscribe(newTenant(), time.Millisecond, nil)
		i.publish(s, 64)
		w.set(func(q *deliveryQueue) { q.isDown = true })
		w.advance(10 * time.Second)
		w.want(s, "during the outage", statuses{acquired: 64})
		w.set(func(q *deliveryQueue) { q.isDown = false })
		w.advance(5 * time.Second)
		w.want(s, "after the outage", statuses{success: 64})
		if n := w.receiver(s).twice(); n != 0 {
			t.Errorf("%d deliveries were sent twice", n)
		}
	})
}

func TestOutcomesWhoseLeaseWasLostDoNotCount(t *testing.T) {
	runDispatcherTest(t, func(t *testing.T, w *dispatcherHarness) {
		i := w.start()
		s := w.subscribe(newTenant(), time.Second, nil)
		list := i.publish(s, 3)
		w.advance(500 * time.Millisecond)
		w.set(func(q *deliveryQueue) { q.rows[list[1].ID].Lease.Token++ })
		w.advance(time.Second)
		if i.written != 2 || i.lost != 1 {
			t.Errorf("observer: got %d settled and %d lost deliveries, want 2 and 1", i.written, i.lost)
		}
	})
}

// While one write of outcomes is slow, another one writes the next outcomes.
func TestASlowSettleDoesNotDelayOtherOutcomes(t *testing.T) {
	runDispatcherTest(t, func(_ *testing.T, w *dispatcherHarness) {
		i := w.start()
		s := w.subscribe(newTenant(), time.Millisecond, nil)
		w.set(func(q *deliveryQueue) { q.answer = time.Second })
		i.publish(s, 1)
		w.advance(100 * time.Millisecond)
		i.publish(s, 1)
		w.advance(1100 * time.Millisecond)
		w.want(s, "both deliveries", statuses{success: 2})
	})
}

func TestDeliveriesAreReleasedAfterADatabaseOutage(t *testing.T) {
	runDispatcherTest(t, func(_ *testing.T, w *dispatcherHarness) {
		i := w.start()
		s := w.subscribe(newTenant(), time.Second, nil)
		i.publish(s, 60)
		w.advance(500 * time.Millisecond)
		w.set(func(q *deliveryQueue) { q.isDown = true })
		w.update(s, func(s *eventhook.Subscription) { s.Status = eventhook.SubscriptionPaused })
		i.TenantChanged(s.TenantID)
		w.advance(5 * time.Second)
		w.want(s, "during the outage", statuses{acquired: 60})
		w.set(func(q *deliveryQueue) { q.isDown = false })
		w.advance(3 * time.Second)
		w.want(s, "after the outage", statuses{success: 4, pending: 56})
	})
}

func TestReleasedDeliveriesFreeMemory(t *testing.T) {
	runDispatcherTest(t, func(t *testing.T, w *dispatcherHarness) {
		i := w.start(func(c *outbound.Config) { c.QueueDeliveries = 400 })
		tenant := newTenant()
		for range 20 {
			s := w.subscribe(tenant, time.Second, nil)
			i.publish(s, 50)
			w.update(s, func(s *eventhook.Subscription) { s.Status = eventhook.SubscriptionPaused })
			i.TenantChanged(tenant)
			w.advance(3 * time.Second)
		}
		s := w.subscribe(tenant, 0, nil)
		n, _ := i.Reserve(outbound.Scheduled(s), 50)
		if n != 50 {
			t.Errorf("Reserve returned %d with empty memory, want 50", n)
		}
		i.Release(eventhook.DestinationID(s.ID), n)
	})
}

func TestOutcomesAreDroppedWhenTheirLeasesHaveRunOut(t *testing.T) {
	runDispatcherTest(t, func(t *testing.T, w *dispatcherHarness) {
		i := w.start()
		s := w.subscribe(newTenant(), time.Millisecond, nil)
		i.publish(s, 10)
		w.set(func(q *deliveryQueue) { q.isDown = true })
		w.advance(2 * time.Minute)
		if n := i.Stats().Unsettled; n != 0 {
			t.Errorf("%d outcomes whose leases have ended are in memory, want 0", n)
		}
		w.set(func(q *deliveryQueue) { q.isDown = false })
		w.advance(5 * time.Second)
		w.want(s, "sent again", statuses{success: 10})
	})
}

func TestNothingIsSentWhenTooManyOutcomesWait(t *testing.T) {
	runDispatcherTest(t, func(t *testing.T, w *dispatcherHarness) {
		i := w.start(func(c *outbound.Config) { c.UnsettledDeliveries = 20 })
		w.set(func(q *deliveryQueue) { q.isDown = true })
		s := w.subscribe(newTenant(), time.Millisecond, nil, func(s *eventhook.Subscription) { s.MaxInFlight = 1 })
		i.publish(s, 60)
		w.advance(10 * time.Second)
		if n := len(w.receiver(s).times); n != 20 {
			t.Errorf("%d were sent, want 20", n)
		}
		w.set(func(q *deliveryQueue) { q.isDown = false })
		w.advance(10 * time.Second)
		w.want(s, "after the outage", statuses{success: 60})
	})
}

// If a destination cannot be read, the next read follows a second later. Its deliveries are not lost.
func TestDeliveriesWaitUntilTheirDestinationCanBeRead(t *testing.T) {
	runDispatcherTest(t, func(t *testing.T, w *dispatcherHarness) {
		i := w.start()
		s := w.subscribe(newTenant(), time.Millisecond, nil)
		w.mu.Lock()
		w.lookups = errors.New("the database is down")
		w.mu.Unlock()
		i.publish(s, 10)
		w.advance(20 * time.Second)
		w.want(s, "while the destination cannot be read", statuses{pending: 10})
		if n := w.stats().claims; n > 25 {
			t.Errorf("%d claims in 20 s, want about one per second", n)
		}
		w.mu.Lock()
		w.lookups = nil
		w.mu.Unlock()
		w.advance(3 * time.Second)
		w.want(s, "afterwards", statuses{success: 10})
	})
}

func TestFailedLookupsDoNotDelayOtherTenants(t *testing.T) {
	runDispatcherTest(t, func(_ *testing.T, w *dispatcherHarness) {
		w.unread = newTenant()
		first := w.subscribe(w.unread, 0, nil)
		w.advance(time.Millisecond)
		last := w.subscribe(newTenant(), 0, nil)
		w.backlog(first, 10)
		w.backlog(last, 10)
		w.start()
		w.advance(time.Second)
		w.want(first, "unreadable destination", statuses{pending: 10})
		w.want(last, "the next destination", statuses{success: 10})
	})
}

func TestAnAttemptThatPanicsHasFailed(t *testing.T) {
	runDispatcherTest(t, func(t *testing.T, w *dispatcherHarness) {
		i := w.start()
		s := w.subscribe(newTenant(), 0, func() eventhook.Attempt { panic("panic in the sender") })
		d := i.publish(s, 1)[0]
		w.advance(500 * time.Millisecond)
		if r := w.row(d.ID); r.Status != failed || r.RetryCount != 1 {
			t.Errorf("got %s, %d retries; want it failed", r.Status, r.RetryCount)
		}
	})
}

func TestADispatcherWithoutSlotsSendsNothing(t *testing.T) {
	runDispatcherTest(t, func(_ *testing.T, w *dispatcherHarness) {
		i := w.start(func(c *outbound.Config) { c.SendsAtOnce = 0 })
		s := w.subscribe(newTenant(), 0, nil)
		i.publish(s, 3)
		w.advance(time.Minute)
		w.want(s, "without slots", statuses{pending: 3})
	})
}

func TestDispatcherConfigValidate(t *testing.T) {
	if f := outbound.DefaultConfig().Validate(); len(f) > 0 {
		t.Errorf("the default configuration has the faults %v", f)
	}
	var at []string
	for _, f := range (outbound.Config{SendsAtOnce: -1, DrainTimeout: -1}).Validate() {
		at = append(at, f.Location)
	}
	want := []string{"sends_at_once", "queue_deliveries", "queue_bytes", "batch_size", "unsettled_deliveries", "poll_interval", "drain_timeout", "max_age"}
	if !slices.Equal(at, want) {
		t.Errorf("faults at %v, want %v", at, want)
	}
}
