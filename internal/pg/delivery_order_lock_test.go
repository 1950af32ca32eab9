package pg

import (
	"testing"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/effects"
	"github.com/eventhook/eventhook/outbound"
)

// A change of a subscription locks the subscription before the keys of its system event's
// deliveries. If a settlement of a dead delivery locked keys first, the two could deadlock.
func TestASettlementLocksKeysAfterSubscriptions(t *testing.T) {
	f := setUp(t)
	s := f.insertSubscription()
	ids := f.publishOrdered(s, "a", "a")
	d := f.wantClaimed(f.db, s, ids[0])[0]
	tx, err := f.other.work.Begin(t.Context())
	f.must(err)
	defer func() { _ = tx.Rollback(t.Context()) }()
	_, err = tx.Exec(t.Context(), `SELECT FROM eventhook.subscription WHERE id = $1 FOR UPDATE`, [16]byte(s.ID))
	f.must(err)
	ended := make(chan error, 1)
	go func() {
		_, err := f.db.SettleDeliveries(t.Context(), []*outbound.DeliverySettlement{f.settlement(d, eventhook.DeliveryDead)})
		ended <- err
	}()
	f.waitForBlocked(1)
	var isFree bool
	f.must(tx.QueryRow(t.Context(), `SELECT pg_try_advisory_xact_lock(1702258796, eventhook.order_slot($1))`, [16]byte(d.OrderKey)).Scan(&isFree))
	same(t, "the key is free while the settlement waits for the subscription", isFree, true)
	f.must(tx.Rollback(t.Context()))
	f.must(<-ended)
	f.wantClaimed(f.db, s, ids[1])
}

// Ordered deliveries release their locks before their commit is on disk.
func TestChangesOfOrderedDeliveriesAreOnDiskWhenTheyAreReported(t *testing.T) {
	f := setUp(t)
	s := f.insertSubscription()
	f.exec(`DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET synchronous_commit = on', current_database()); END $$`) // tests turn it off
	db := f.open(func(*Options) {})
	before := queryValue[string](f, `SELECT pg_current_wal_insert_lsn()::text`)
	wantFlushed := func(act string) {
		t.Helper()
		if !queryValue[bool](f, `SELECT pg_current_wal_flush_lsn() > $1::pg_lsn`, before) {
			t.Errorf("%s was reported before it was on disk", act)
		}
		before = queryValue[string](f, `SELECT pg_current_wal_insert_lsn()::text`)
	}
	ids := f.publishOrdered(s, "a")
	wantFlushed("publishing")
	d := f.wantClaimed(f.db, s, ids[0])[0]
	before = queryValue[string](f, `SELECT pg_current_wal_insert_lsn()::text`)
	f.settleAll(db, eventhook.DeliverySuccess, d)
	wantFlushed("settling")
	before = queryValue[string](f, `SELECT pg_current_wal_insert_lsn()::text`)
	f.accept(db, f.arrival(f.event(), f.orderedAction(s, "a")))
	wantFlushed("accepting an event of a route that publishes")
	later := f.event(f.withLease)
	f.accept(db, &effects.Arrival{Event: later})
	before = queryValue[string](f, `SELECT pg_current_wal_insert_lsn()::text`)
	f.settle(db, f.plan(later, f.orderedAction(s, "a")))
	wantFlushed("settling such an event")
	same(t, "deliveries of the key", f.count("delivery", "order_key IS NOT NULL"), 3)
}

// orderedAction returns an action that publishes an event with an ordered delivery.
func (f *fixture) orderedAction(to *eventhook.Subscription, value string) effects.PlannedAction {
	a := f.publishAction("payment.made", "", `{}`, to)
	a.Effect.Publication.Deliveries[0].OrderKey = eventhook.OrderKeyOf(value)
	return a
}
