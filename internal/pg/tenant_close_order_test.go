package pg

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/eventhook/eventhook"
)

// The keys of all tenants share locks, which transactions take in ascending order. If the closing
// of a tenant took them in the order of its deliveries, another tenant's transaction could
// deadlock with it.
func TestClosingLocksKeysInAscendingOrder(t *testing.T) {
	f := setUp(t)
	s := f.insertSubscription()
	var high, low string // the key that locks the last slot, and the first
	slot := func(value string) byte { k := eventhook.OrderKeyOf(value); return k[len(k)-1] }
	for _, v := range []string{"a", "b", "c", "d", "e", "f"} {
		if high == "" || slot(v) > slot(high) {
			high = v
		}
		if low == "" || slot(v) < slot(low) {
			low = v
		}
	}
	f.publishOrdered(s, high, low)
	tx, err := f.other.work.Begin(t.Context())
	f.must(err)
	defer func() { _ = tx.Rollback(t.Context()) }()
	lock(f, tx, slot(low))
	_, err = f.db.CloseTenant(t.Context(), operator, "acme")
	f.must(err)
	ended := make(chan error, 1)
	go func() {
		_, err := f.db.CleanUpTenants(t.Context())
		ended <- err
	}()
	f.waitForBlocked(1)
	_, err = tx.Exec(t.Context(), `SET LOCAL lock_timeout = '200ms'`)
	f.must(err)
	lock(f, tx, slot(high))
	f.must(tx.Rollback(t.Context()))
	f.must(<-ended)
	f.cleanUp(f.db)
	same(t, "open deliveries", f.count("delivery", "due_at IS NOT NULL"), 0)
}

// lock locks a slot as a transaction does that stores ordered deliveries.
func lock(f *fixture, tx pgx.Tx, slot byte) {
	f.Helper()
	_, err := tx.Exec(f.Context(), `SELECT pg_advisory_xact_lock(1702258796, $1)`, int(slot))
	f.must(err)
}

// Deliveries of two tenants to an operator subscription have one key. The purge of a tenant
// deletes the first one, for which the other waits.
func TestAPurgeMakesTheNextDeliveriesOfKeysDue(t *testing.T) {
	f := setUp(t)
	umbrella := f.secondTenant()
	s := f.operatorSubscription()
	first := f.publishOrdered(&s, "a")[0]
	next := eventhook.NewID[eventhook.Delivery](f.clock.Now())
	f.exec(`INSERT INTO eventhook.delivery (id, tenant_id, destination_id, event_id, event_type, due_at, status, order_key, order_seq)
		SELECT $2, $3, destination_id, $2, event_type, 'infinity', 'pending', order_key, order_seq + 1 FROM eventhook.delivery WHERE id = $1`, [16]byte(first), [16]byte(next), [16]byte(umbrella))
	_, err := f.db.CloseTenant(t.Context(), operator, "acme")
	f.must(err)
	_, err = f.db.PurgeTenant(t.Context(), operator, "acme")
	f.must(err)
	f.clock.Advance(lateWrites)
	f.cleanUp(f.db)
	same(t, "the first delivery", f.count("delivery", "id = $1", [16]byte(first)), 0)
	same(t, "the next delivery is due", f.count("delivery", "id = $1 AND due_at < 'infinity'", [16]byte(next)), 1)
}
