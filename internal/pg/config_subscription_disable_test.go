package pg

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/eventhook/eventhook"
)

// disable disables subscriptions as a settle of deliveries does.
func (f *fixture) disable(db *DB, reasons map[eventhook.SubscriptionID]string) {
	f.Helper()
	f.must(db.inTx(f.Context(), "test", func(tx pgx.Tx) error {
		why := map[eventhook.SubscriptionID]disabling{}
		for id, reason := range reasons {
			why[id] = disabling{eventhook.DisabledByFailures, reason}
		}
		_, _, err := db.disableSubscriptions(f.Context(), tx, why)
		return err
	}))
}

func TestTheGatewayDisablesSubscriptions(t *testing.T) {
	f := setUp(t)
	umbrella := f.secondTenant()
	failing := f.subscription(named("failing", "*"))
	paused := f.subscription(named("paused", "*"))
	_, err := f.changeSubscription(operator, paused, 0, func(s *eventhook.Subscription) { s.Status = eventhook.SubscriptionPaused })
	f.must(err)
	gone, kept := f.subscription(named("gone", "x")), f.subscription(named("kept", "webhook.disabled"))
	f.must(f.db.DeleteSubscription(t.Context(), operator, f.tenant, gone.ID, 0))
	foreign, err := f.db.CreateSubscription(t.Context(), operator, f.newSubscription(func(s *eventhook.Subscription) { s.TenantID = umbrella }))
	f.must(err)
	f.exec(`DELETE FROM eventhook.delivery`)
	before := f.generation()
	f.clock.Advance(time.Second)
	reasons := map[eventhook.SubscriptionID]string{failing.ID: "10 deliveries died in a row", paused.ID: "answered 410", gone.ID: "x", foreign.ID: "y"}
	f.disable(f.db, reasons)
	for _, want := range []eventhook.Subscription{failing, paused} {
		got := f.storedSubscription(want.ID)
		same(t, want.Name, []any{got.Status, got.DisabledReason}, []any{eventhook.SubscriptionDisabled, reasons[want.ID]})
	}
	same(t, "the generation", f.generation(), before+1)
	same(t, "of another tenant", queryValue[string](f, `SELECT status || ' ' || disabled_reason FROM eventhook.subscription WHERE id = $1`, [16]byte(foreign.ID)), "disabled y")
	entry := f.audit(eventhook.AuditFilter{Tenant: umbrella, Action: "webhook.disabled"})[0]
	same(t, "the actor", entry.Actor, eventhook.Actor{Type: eventhook.ActorSystem, Name: "eventhook"})
	same(t, "events for the subscription that stays enabled", f.deliveredTypes(kept), "webhook.disabled webhook.disabled")
	same(t, "events for the disabled subscription, which are held", f.deliveredTypes(failing), "webhook.disabled webhook.disabled")

	entries := len(f.audit(eventhook.AuditFilter{}))
	f.disable(f.other, reasons)
	same(t, "audit entries of a second call", len(f.audit(eventhook.AuditFilter{}))-entries, 0)
	f.disable(f.other, nil)
}

// A settle holds locks that other transactions wait for, so it must not wait itself.
func TestDisablingSkipsLockedSubscriptions(t *testing.T) {
	f := setUp(t)
	s, other := f.subscription(), f.subscription(named("other", "*"))
	_, err := f.changeSubscription(operator, s, 0, func(have *eventhook.Subscription) {
		f.disable(f.other, map[eventhook.SubscriptionID]string{s.ID: "failing", other.ID: "failing"})
		have.Name = "changed"
	})
	f.must(err)
	same(t, "it", f.storedSubscription(s.ID).Status, eventhook.SubscriptionActive)
	same(t, "the other", f.storedSubscription(other.ID).Status, eventhook.SubscriptionDisabled)
	f.disable(f.other, map[eventhook.SubscriptionID]string{s.ID: "failing"})
	same(t, "after the lock was released", f.storedSubscription(s.ID).Status, eventhook.SubscriptionDisabled)
}
