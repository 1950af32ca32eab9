package pg

import (
	"testing"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/outbound/replay"
)

// send sends an event to a subscription.
func (f *fixture) send(to *eventhook.Subscription, id eventhook.EventID) (eventhook.DeliveryID, bool, error) {
	to.TenantID = f.tenant
	return replay.Sender{Store: f.db}.SendEvent(f.Context(), operator, *to, id)
}

func TestAnEventIsSentToASubscriptionThatNeverGotIt(t *testing.T) {
	f := setUp(t)
	s := f.insertSubscription()
	e := f.event(f.withLease)
	f.must(f.db.Accept(t.Context(), arrivals(e)))
	f.clock.Advance(48 * time.Hour)
	wake := f.db.DeliveriesWake()
	id, created, err := f.send(s, e.ID)
	f.must(err)
	wantClosed(t, "this instance's dispatcher", wake)
	same(t, "created", []any{id, created}, []any{eventhook.DeliveryIDOf(e.ID, eventhook.DestinationID(s.ID)), true})
	got, _ := f.delivery(id)
	same(t, "the delivery", []any{got.Status, got.EventType, got.RestartedAt.UTC(), got.NextAttemptAt.UTC()}, []any{eventhook.DeliveryPending, "push", f.clock.Now(), f.clock.Now()})
	again, created, err := f.send(s, e.ID)
	f.must(err)
	same(t, "while it waits", []any{again, created}, []any{id, false})
	same(t, "audited once", len(f.audit(eventhook.AuditFilter{Action: "subscription.event_sent"})), 1)
	claimed := f.claimDeliveries(f.db, 9, s)
	same(t, "claimed", len(claimed), 1)
	same(t, "its body", string(claimed[0].Event.Body), "{}")
}

func TestASettledDeliveryIsSentAgain(t *testing.T) {
	f := setUp(t)
	s := f.insertSubscription()
	for _, status := range []eventhook.DeliveryStatus{eventhook.DeliverySuccess, eventhook.DeliveryFailed, eventhook.DeliveryDead} {
		d := f.claimedDeliveries(1, s)[0]
		f.settleDeliveries(f.db, f.settlement(d, status))
		f.clock.Advance(time.Millisecond)
		id, created, err := f.send(s, d.EventID)
		f.must(err)
		same(t, string(status), []any{id, created}, []any{d.ID, false})
		got, _ := f.delivery(id)
		same(t, string(status)+" is due", []any{got.Status, got.RetryCount}, []any{eventhook.DeliveryPending, 0})
		f.settleDeliveries(f.db, f.settlement(f.claimDeliveries(f.db, 1, s)[0], eventhook.DeliverySuccess))
	}
}

func TestAnOrderedEventIsSentInItsOrder(t *testing.T) {
	f := setUp(t)
	s := f.insertSubscription(func(s *eventhook.Subscription) { s.OrderedBy = "event_type" })
	first, second := f.newPublication(""), f.newPublication("")
	f.clock.Advance(time.Millisecond)
	f.publish(f.db, first, second)
	for _, p := range []eventhook.EventID{first.Event.ID, second.Event.ID} {
		_, created, err := f.send(s, p)
		f.must(err)
		same(t, "created", created, true)
	}
	claimed := f.claimDeliveries(f.db, 9, s)
	same(t, "claimed at once", len(claimed), 1)
	same(t, "the first one", claimed[0].EventID, first.Event.ID)
	same(t, "its age counts from now", claimed[0].RestartedAt.UTC(), f.clock.Now())
}

func TestEventsThatCannotBeSent(t *testing.T) {
	f := setUp(t)
	other := f.secondTenant()
	e := f.event(f.withLease)
	gone := f.event(f.withLease)
	f.must(f.db.Accept(t.Context(), arrivals(e, gone)))
	f.exec(`DELETE FROM eventhook.event_payload WHERE event_id = $1`, [16]byte(gone.ID))
	scoped := f.newPublication("")
	scoped.Event.Envelope = &eventhook.Envelope{Scope: []byte(`"customer-42"`)}
	f.publish(f.db, scoped)
	insert := func(change func(*eventhook.Subscription)) *eventhook.Subscription {
		f.clock.Advance(time.Millisecond)
		return f.insertSubscription(change)
	}
	plain := insert(func(*eventhook.Subscription) {})
	of4 := insert(func(s *eventhook.Subscription) { s.ScopeFilter = []string{"customer-4", "customer-4/*"} })
	disabled := insert(func(s *eventhook.Subscription) { s.Status = eventhook.SubscriptionDisabled })
	deleted := insert(func(*eventhook.Subscription) {})
	f.exec(`DELETE FROM eventhook.subscription WHERE id = $1`, [16]byte(deleted.ID))
	for claim, c := range map[string]struct {
		to   *eventhook.Subscription
		id   eventhook.EventID
		kind eventhook.Kind
	}{
		"no such event":              {plain, eventhook.NewID[eventhook.Event](noon), eventhook.KindNotFound},
		"past its retention":         {plain, gone.ID, eventhook.KindConflict},
		"another scope":              {of4, scoped.Event.ID, eventhook.KindConflict},
		"no scope":                   {of4, e.ID, eventhook.KindConflict},
		"disabled meanwhile":         {disabled, e.ID, eventhook.KindConflict},
		"deleted meanwhile":          {deleted, e.ID, eventhook.KindNotFound},
		"an event of another tenant": {&eventhook.Subscription{ID: plain.ID, TenantID: other}, e.ID, eventhook.KindNotFound},
	} {
		_, _, err := replay.Sender{Store: f.db}.SendEvent(t.Context(), operator, *c.to, c.id)
		wantKind(t, claim, err, c.kind)
	}
	same(t, "deliveries", f.count("delivery", "true"), 0)
	of42 := insert(func(s *eventhook.Subscription) { s.ScopeFilter = []string{"customer-42"} })
	_, created, err := f.send(of42, scoped.Event.ID)
	f.must(err)
	same(t, "with its scope", created, true)
}
