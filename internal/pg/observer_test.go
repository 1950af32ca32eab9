package pg

import (
	"testing"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/outbound"
)

// observed counts what an Observer is told, by name.
type observed map[string]int

func (o observed) DeliveriesExpired(n int) { o.add("expired", n) }
func (o observed) ExecutionsLost(n int)    { o.add("lost", n) }
func (o observed) SubscriptionsDisabled(by eventhook.DisabledBy, n int) {
	o.add("disabled by "+string(by), n)
}
func (o observed) OutagesRecovered(n int)                    { o.add("recovered", n) }
func (o observed) ReplayEnded(status eventhook.ReplayStatus) { o.add("replay "+string(status), 1) }
func (o observed) PartitionDropped(table string)             { o.add("dropped "+table, 1) }

// add ignores zeros, which the metrics ignore too.
func (o observed) add(name string, n int) {
	if n != 0 {
		o[name] += n
	}
}

// observe counts what f.db reports from now on.
func (f *fixture) observe() observed {
	o := observed{}
	f.db.Observe(o)
	return o
}

func TestDisabledSubscriptionsAreCountedByTheirReason(t *testing.T) {
	f := setUp(t)
	got := f.observe()
	failing, gone, byUser := f.subscription(named("failing", "x")), f.subscription(named("gone", "x")), f.subscription(named("user", "x"))
	f.subscription(named("open", "x"))
	f.settleDeliveries(f.db, f.settlement(f.claimedDeliveries(1, &failing)[0], eventhook.DeliveryDead, limit(1)),
		f.settlement(f.claimedDeliveries(1, &gone)[0], eventhook.DeliveryDead, func(s *outbound.DeliverySettlement) { s.Disable = "gone" }))
	disable := func(s *eventhook.Subscription) { s.Status = eventhook.SubscriptionDisabled }
	for range 2 { // the second change disables nothing
		_, err := f.changeSubscription(operator, byUser, 0, disable)
		f.must(err)
	}
	_, err := f.changeSubscription(operator, byUser, 7_000, disable)
	wantKind(t, "a change that is rolled back", err, eventhook.KindStale)
	same(t, "before the close", got, observed{"disabled by failures": 1, "disabled by gone": 1, "disabled by user": 1})
	_, err = f.db.CloseTenant(t.Context(), operator, "acme")
	f.must(err)
	same(t, "after the close", got["disabled by tenant"], 1)
}

func TestEndsOfOutagesAndReplaysAreCounted(t *testing.T) {
	o := newOutage(t)
	got := o.observe()
	o.clock.Advance(time.Hour)
	o.step(o.db)
	same(t, "after a probe that succeeds", got, observed{"recovered": 1})
	other := o.insertSubscription()
	list := o.claimedDeliveries(2, other)
	o.settleDeliveries(o.db, o.settlement(list[0], eventhook.DeliveryFailed, circuitOpen(o.clock.Now())))
	o.settleDeliveries(o.db, o.settlement(list[1], eventhook.DeliverySuccess))
	same(t, "after a delivery that succeeds", got, observed{"recovered": 2})

	s := o.subscription(named("replayed", "y"))
	r := o.startReplay(s)
	_, err := o.db.CancelReplay(t.Context(), operator, s, r.ID)
	o.must(err)
	same(t, "cancelled", got["replay cancelled"], 1)
	_, err = o.db.CancelReplay(t.Context(), operator, s, r.ID)
	wantKind(t, "a second cancellation", err, eventhook.KindConflict)
	same(t, "cancelled after a second cancellation", got["replay cancelled"], 1)
	before := got["replay completed"]
	o.finishReplay(o.replayWorker(o.db), o.startReplay(s))
	same(t, "completed", got["replay completed"]-before >= 1, true)
}

func TestWorkThatEndsWithoutAnAttemptIsCounted(t *testing.T) {
	f := setUp(t)
	got := f.observe()
	f.keep(Retention{})
	f.publishTo(3, f.insertSubscription(func(s *eventhook.Subscription) { s.Status = eventhook.SubscriptionPaused }))
	f.execution(eventhook.Task, func(x *eventhook.Execution) { x.MaxAttempts = 1 })
	same(t, "claimed", len(f.claimWork(f.db, f.query())), 1)
	f.clock.Advance(lease)
	same(t, "claimed after its last lease", len(f.claimWork(f.db, f.query())), 0)
	same(t, "a lost execution", got, observed{"lost": 1})
	f.clock.Advance(3 * day)
	_, err := f.db.ExpireDeliveries(t.Context(), day)
	f.must(err)
	same(t, "expired deliveries", got["expired"], 3)
}

// A partition that is missing, or was dropped, shows in the sizes that the metrics read.
func TestPartitionsAreCounted(t *testing.T) {
	f := setUp(t)
	got := f.observe()
	f.keep(Retention{})
	sizes := func() eventhook.DatabaseSizes {
		t.Helper()
		s, err := f.db.Sizes(t.Context())
		f.must(err)
		return s
	}
	same(t, "partitions", sizes().Partitions, map[string]int{"event": 2, "event_action": 2, "event_payload": 2, "delivery": 2})
	f.exec(`DROP TABLE eventhook.event_20260311`)
	missing := sizes()
	same(t, "the next days without one", missing.HasNextDays, map[string]bool{"event": false, "event_action": true, "event_payload": true, "delivery": true})
	same(t, "partitions without one", missing.Partitions["event"], 1)
	f.keep(Retention{})
	same(t, "the next day after the maintenance", sizes().HasNextDays["event"], true)
	f.clock.Advance(day)
	same(t, "the next day after midnight", sizes().HasNextDays["event"], false)
	f.clock.Advance(9 * day)
	f.keep(Retention{EventsDays: 2, BodiesDays: 1, DeliveriesDays: 2})
	same(t, "dropped", got, observed{"dropped event": 2, "dropped event_action": 2, "dropped event_payload": 2, "dropped delivery": 2})
}
