package pg

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/outbound"
	"github.com/eventhook/eventhook/outbound/replay"
)

// startReplay starts a replay since the beginning of the test.
func (f *fixture) startReplay(of eventhook.Subscription, change ...func(*eventhook.ReplayRequest)) eventhook.Replay {
	f.Helper()
	r := eventhook.ReplayRequest{Since: noon}
	for _, c := range change {
		c(&r)
	}
	created, err := f.db.CreateReplay(f.Context(), operator, of, eventhook.Replay{ReplayRequest: r})
	f.must(err)
	return created
}

func withMissing(r *eventhook.ReplayRequest) { r.Missing = true }

// deliver claims and settles all due deliveries of a subscription.
func (f *fixture) deliver(to eventhook.Subscription, status eventhook.DeliveryStatus) (n int) {
	f.Helper()
	f.clock.Advance(time.Second) // the deliveries of a page are due one after another
	for {
		list := f.claimDeliveries(f.db, 1000, &to)
		if len(list) == 0 {
			return n
		}
		n += len(list)
		var batch []*outbound.DeliverySettlement
		for _, d := range list {
			batch = append(batch, f.settlement(d, status, func(s *outbound.DeliverySettlement) { s.DeadInRow = 0 }))
		}
		f.settleDeliveries(f.db, batch...)
	}
}

// finishReplay delivers what a replay queues until it ends, and returns the number of
// deliveries.
func (f *fixture) finishReplay(w *replay.Worker, r eventhook.Replay) (delivered int) {
	f.Helper()
	for range 100 {
		f.replaySteps(w)
		if status, _, _, _ := f.replayStatus(r.ID); status != "running" {
			return delivered
		}
		f.clock.Advance(10 * time.Second)
		s, err := f.db.Subscription(f.Context(), f.tenant, r.SubscriptionID)
		f.must(err)
		delivered += f.deliver(s, eventhook.DeliverySuccess)
	}
	f.Fatal("the replay does not end")
	return delivered
}

// publishTyped publishes an event without deliveries.
func (f *fixture) publishTyped(eventType, body string) eventhook.EventID {
	f.Helper()
	f.clock.Advance(time.Millisecond)
	p := f.newPublication("")
	p.Event.EventType, p.Event.Body = eventType, []byte(body)
	f.publish(f.db, p)
	return p.Event.ID
}

// The customer's story: an endpoint received 9 of 16 events, since its subscription was
// disabled or did not exist for the other ones.
func TestAReplaySendsMissingEventsOnce(t *testing.T) {
	f := setUp(t)
	s := f.newSubscription()
	s.EventTypes = []string{"payment.*"}
	f.publishTyped("payment.made", "{}") // before the subscription existed
	f.leasedEvents(1)                    // of a source, which no subscription gets
	s, err := f.db.CreateSubscription(t.Context(), operator, s)
	f.must(err)
	f.claimedAndSettled(&s, 4, eventhook.DeliverySuccess)
	f.claimedAndSettled(&s, 5, eventhook.DeliveryDead)
	for range 6 {
		f.publishTyped("payment.made", "{}") // while it was disabled
	}
	f.publishTyped("order.made", "{}")
	f.publishTyped("tenant.created", "{}") // visible to the operator only
	f.publishTyped("system.webhook_test", "{}")
	f.clock.Advance(time.Second)
	w := f.replayWorker(f.other)
	r := f.startReplay(s, withMissing)
	same(t, "delivered", f.finishReplay(w, r), 12)
	f.wantReplay(r.ID, "completed", 12, 12, 0)
	same(t, "deliveries", f.count("delivery", "destination_id = '"+s.ID.String()+"' AND status = 'success'"), 16)
	again := f.startReplay(s, withMissing)
	same(t, "delivered by a second replay", f.finishReplay(w, again), 0)
	f.wantReplay(again.ID, "completed", 0, 0, 0)
}

func (f *fixture) claimedAndSettled(to *eventhook.Subscription, n int, status eventhook.DeliveryStatus) {
	f.Helper()
	f.publishTo(n, to)
	f.deliver(*to, status)
}

// Two replays of one window, on two instances, in turns.
func TestTwoReplaysOfOneWindowSendNothingTwice(t *testing.T) {
	f := setUp(t)
	s := f.subscription()
	f.claimedAndSettled(&s, 50, eventhook.DeliveryDead)
	f.claimedAndSettled(&s, 50, eventhook.DeliverySuccess)
	for range 50 {
		f.publishTyped("payment.made", "{}")
	}
	f.clock.Advance(time.Second)
	all := func(r *eventhook.ReplayRequest) { r.Missing, r.Statuses = true, eventhook.ReplayStatuses }
	first := f.startReplay(s, all)
	second := f.startReplay(s, all, func(r *eventhook.ReplayRequest) { r.EventTypes = []string{"payment.*"} })
	a, b := f.replayWorker(f.db), f.replayWorker(f.other)
	delivered := 0
	for range 20 {
		for _, w := range []*replay.Worker{a, b} {
			_, _, err := w.Step(t.Context())
			f.must(err)
			delivered += f.deliver(s, eventhook.DeliverySuccess)
			f.clock.Advance(time.Second)
		}
	}
	same(t, "delivered", delivered, 150)
	f.wantEnded(first.ID, second.ID)
}

func (f *fixture) wantEnded(ids ...eventhook.ReplayID) {
	f.Helper()
	for _, id := range ids {
		if status, _, _, _ := f.replayStatus(id); status != "completed" {
			f.Errorf("a replay is %s, want completed", status)
		}
	}
}

// An instance that is killed after any step loses nothing: the other one continues when the
// lease has expired, and a late step of the first one changes nothing.
func TestAKilledInstanceLosesNoPartOfAReplay(t *testing.T) {
	f := setUp(t)
	s := f.subscription()
	f.claimedAndSettled(&s, 20, eventhook.DeliveryDead)
	f.clock.Advance(time.Second)
	r := f.startReplay(s)
	job, _, err := f.db.LeaseReplay(t.Context(), lease)
	f.must(err)
	page, err := f.db.ReplayPage(t.Context(), job, 10)
	f.must(err)
	f.replaySteps(f.replayWorker(f.other))
	f.wantReplay(r.ID, "running", 0, 0, 0)
	f.clock.Advance(lease)
	f.replaySteps(f.replayWorker(f.other))
	f.wantReplay(r.ID, "running", 20, 0, 0)
	f.deliver(s, eventhook.DeliveryDead)
	f.must(f.db.AdvanceReplay(t.Context(), job, replay.Step{Queue: page.Deliveries, Matched: 10, Cursor: page.Cursor, DueAt: f.clock.Now()}))
	same(t, "open after the late step", f.deliver(s, eventhook.DeliverySuccess), 0)
	f.clock.Advance(10 * time.Second)
	f.replaySteps(f.replayWorker(f.other))
	f.wantReplay(r.ID, "completed", 20, 0, 20)
}

// A replay of 2,000 deliveries leaves at most MaxOpen of them open, and continues as they end.
func TestAReplayBoundsItsLoad(t *testing.T) {
	f := setUp(t)
	s := f.subscription()
	f.claimedAndSettled(&s, 3500, eventhook.DeliveryDead)
	f.clock.Advance(time.Second)
	r := f.startReplay(s)
	w := f.replayWorker(f.db)
	delivered := 0
	for range 10 {
		f.replaySteps(w)
		if open := f.count("delivery", "due_at IS NOT NULL"); open > replay.MaxOpen {
			t.Errorf("%d deliveries are open, want at most %d", open, replay.MaxOpen)
		}
		for _, d := range f.claimDeliveries(f.db, 800, &s) {
			delivered++
			f.settleDeliveries(f.db, f.settlement(d, eventhook.DeliverySuccess))
		}
		f.clock.Advance(10 * time.Second)
	}
	same(t, "delivered", delivered, 3500)
	f.replaySteps(w)
	f.wantReplay(r.ID, "completed", 3500, 3500, 0)
}

// A replay matches the subscription as it is at each step.
func TestAReplayUsesTheFilterOfToday(t *testing.T) {
	f := setUp(t)
	s := f.subscription()
	for i := range 6 {
		f.publishTyped("payment.made", fmt.Sprintf(`{"amount":%d}`, i))
	}
	f.clock.Advance(time.Second)
	r := f.startReplay(s, withMissing)
	_, err := f.changeSubscription(operator, s, 0, func(s *eventhook.Subscription) { s.Filter = []byte(`{"body.amount":{"$gte":4}}`) })
	f.must(err)
	same(t, "delivered", f.finishReplay(f.replayWorker(f.db), r), 2)
}

func TestAReplayWaitsWhileItsSubscriptionIsNotActive(t *testing.T) {
	f := setUp(t)
	s := f.subscription()
	f.claimedAndSettled(&s, 1, eventhook.DeliveryDead)
	f.clock.Advance(time.Second)
	r := f.startReplay(s)
	w := f.replayWorker(f.db)
	for _, status := range []eventhook.SubscriptionStatus{eventhook.SubscriptionPaused, eventhook.SubscriptionDisabled} {
		_, err := f.changeSubscription(operator, s, 0, func(s *eventhook.Subscription) { s.Status = status })
		f.must(err)
		f.clock.Advance(time.Minute)
		f.replaySteps(w)
		f.wantReplay(r.ID, "running", 0, 0, 0)
	}
	_, err := f.changeSubscription(operator, s, 0, func(s *eventhook.Subscription) { s.Status = eventhook.SubscriptionActive })
	f.must(err)
	f.clock.Advance(time.Minute)
	same(t, "delivered", f.finishReplay(w, r), 1)
	f.startReplay(s, withMissing)
	f.must(f.db.DeleteSubscription(t.Context(), operator, f.tenant, s.ID, 0))
	f.replaySteps(w)
	same(t, "replays of a deleted subscription", f.count("replay", "true"), 0)
}

// Retention drops deliveries before events. A delivery that may have been dropped is missing
// only if the subscription did not exist at the time of its event.
func TestBeforeTheRetentionOnlyEventsOlderThanTheSubscriptionAreMissing(t *testing.T) {
	f := setUp(t)
	f.keep(Retention{})
	f.publishTyped("payment.made", "{}")
	f.clock.Advance(time.Hour)
	s := f.subscription()
	f.claimedAndSettled(&s, 2, eventhook.DeliverySuccess)
	f.clock.Advance(16 * day)
	f.keep(Retention{EventsDays: 90, DeliveriesDays: 14})
	same(t, "deliveries after the retention", f.count("delivery", "true"), 0)
	w := f.replayWorker(f.db)
	same(t, "delivered", f.finishReplay(w, f.startReplay(s, withMissing)), 1)
	f.keep(Retention{EventsDays: 90, DeliveriesDays: 14})
	same(t, "delivered by a second replay", f.finishReplay(w, f.startReplay(s, withMissing)), 0)
}

// Retention drops events and deliveries while a replay is running.
func TestRetentionDropsPartitionsDuringAReplay(t *testing.T) {
	f := setUp(t)
	f.keep(Retention{})
	s := f.subscription()
	f.claimedAndSettled(&s, 3, eventhook.DeliveryDead)
	f.publishTyped("payment.made", "{}")
	f.clock.Advance(3 * day)
	f.keep(Retention{})
	f.claimedAndSettled(&s, 2, eventhook.DeliveryDead)
	f.clock.Advance(time.Second)
	f.exec(`DELETE FROM eventhook.event WHERE origin = 'system'`)
	r := f.startReplay(s, withMissing)
	w := f.replayWorker(f.db)
	job, _, err := f.db.LeaseReplay(t.Context(), lease)
	f.must(err)
	page, err := f.db.ReplayPage(t.Context(), job, 1000)
	f.must(err)
	same(t, "in the page", len(page.Deliveries), 6)
	f.keep(Retention{EventsDays: 1, DeliveriesDays: 1})
	f.must(f.db.AdvanceReplay(t.Context(), job, replay.Step{Queue: page.Deliveries, Matched: 6, Cursor: page.Cursor, IsRead: true, DueAt: f.clock.Now()}))
	f.clock.Advance(time.Minute)
	same(t, "delivered", f.finishReplay(w, r), 2)
	f.wantReplay(r.ID, "completed", 2, 2, 0)
}

// A replay without an end has all events until it was started, however early it begins.
func TestAReplayWithoutAnEndEndsAtItsStart(t *testing.T) {
	f := setUp(t)
	s := f.subscription()
	for range 2500 { // several pages
		f.publishTyped("order.made", "{}")
	}
	f.publishTyped("payment.made", "{}")
	f.clock.Advance(time.Second)
	r := f.startReplay(s, withMissing, func(r *eventhook.ReplayRequest) { r.Since = time.Unix(0, 0) })
	same(t, "until", r.Until.Equal(f.clock.Now()), true)
	f.clock.Advance(time.Second)
	f.publishTyped("payment.made", "{}")
	same(t, "delivered", f.finishReplay(f.replayWorker(f.db), r), 1)
	f.wantReplay(r.ID, "completed", 1, 1, 0)
}

// The same request on two instances at the same time starts one replay.
func TestConcurrentIdenticalRequestsStartOneReplay(t *testing.T) {
	f := setUp(t)
	s := f.subscription()
	ids := make([]eventhook.ReplayID, 8)
	var done sync.WaitGroup
	for i := range ids {
		done.Go(func() {
			r, err := []*DB{f.db, f.other}[i%2].CreateReplay(t.Context(), operator, s, eventhook.Replay{ReplayRequest: eventhook.ReplayRequest{Since: noon}})
			if err != nil {
				t.Error(err)
			}
			ids[i] = r.ID
		})
	}
	done.Wait()
	for _, id := range ids {
		same(t, "replay", id, ids[0])
	}
	same(t, "audit entries", len(f.audit(eventhook.AuditFilter{Action: "subscription.replayed"})), 1)
}

func TestOldReplaysAreSwept(t *testing.T) {
	f := setUp(t)
	s := f.subscription()
	r := f.startReplay(s)
	f.clock.Advance(91 * day)
	for _, want := range []int{0, 1} {
		n, err := f.db.SweepReplays(t.Context(), 90*day)
		f.must(err)
		same(t, "swept", n, want)
		if want == 0 {
			_, err = f.db.CancelReplay(t.Context(), operator, s, r.ID)
			f.must(err)
		}
	}
}
