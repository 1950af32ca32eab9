package pg

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/outbound"
)

func (f *fixture) restart(which eventhook.DeliverySelection) []eventhook.DeliveryID {
	f.Helper()
	ids, err := f.db.RestartDeliveries(f.Context(), operator, f.tenant, which)
	f.must(err)
	return ids
}

func deliveryIDs(list ...*eventhook.Delivery) []eventhook.DeliveryID {
	ids := []eventhook.DeliveryID{}
	for _, d := range list {
		ids = append(ids, d.ID)
	}
	slices.SortFunc(ids, newerDelivery)
	return ids
}

func TestRestartedDeliveriesHaveAllRetries(t *testing.T) {
	f := setUp(t)
	s := f.insertSubscription()
	d := f.claimedDeliveries(1, s)[0]
	f.settleDeliveries(f.db, f.settlement(d, eventhook.DeliveryDead, func(s *outbound.DeliverySettlement) { s.RetryCount = 5 }))
	f.clock.Advance(time.Hour)
	here := f.db.DeliveriesWake()
	same(t, "restarted", f.restart(eventhook.DeliverySelection{IDs: deliveryIDs(d, d)}), deliveryIDs(d))
	wantClosed(t, "this instance's dispatcher", here)
	got, attempts := f.delivery(d.ID)
	at := f.clock.Now()
	same(t, "the delivery", []any{got.Status, got.RetryCount, got.Attempts, got.CompletedAt, got.RestartedAt.UTC(), got.NextAttemptAt.UTC()},
		[]any{eventhook.DeliveryPending, 0, 1, (*time.Time)(nil), at, at})
	same(t, "attempts", len(attempts), 1)
	again := f.claimDeliveries(f.other, 9, s)
	same(t, "claimed at once", len(again), 1)
	same(t, "the new lease token", again[0].Lease.Token > d.Lease.Token+1, true)
	same(t, "the time of the restart", again[0].RestartedAt.UTC(), at)
	lost, err := f.db.SettleDeliveries(t.Context(), []*outbound.DeliverySettlement{f.settlement(d, eventhook.DeliveryDead)})
	f.must(err)
	same(t, "a late settle is lost", len(lost), 1)
	same(t, "restarted while it is acquired", len(f.restart(eventhook.DeliverySelection{IDs: deliveryIDs(d)})), 0)
	entries := f.audit(eventhook.AuditFilter{Action: "delivery.retried"})
	same(t, "entries in the audit log", len(entries), 1)
	same(t, "of", []string{entries[0].ResourceName, entries[0].Changes[0].Field}, []string{"1 deliveries", "delivery_ids"})
}

func TestRestartSelections(t *testing.T) {
	f := setUp(t)
	s, other, gone := f.insertSubscription(), f.insertSubscription(), f.insertSubscription()
	fresh := func() (of map[eventhook.DeliveryStatus]*eventhook.Delivery) {
		f.exec(`DELETE FROM eventhook.delivery`)
		list := f.claimedDeliveries(5, s)
		of = map[eventhook.DeliveryStatus]*eventhook.Delivery{"dead": list[0], "failed": list[1], "success": list[2], "acquired": list[3], "pending": list[4]}
		for _, status := range []eventhook.DeliveryStatus{"dead", "failed", "success"} {
			f.settleDeliveries(f.db, f.settlement(of[status], status))
		}
		f.must(f.db.ReleaseDeliveries(t.Context(), []*eventhook.Delivery{list[4]}))
		for _, to := range []*eventhook.Subscription{other, gone} {
			of[eventhook.DeliveryStatus(to.ID.String())] = f.claimedDeliveries(1, to)[0]
			f.settleDeliveries(f.db, f.settlement(of[eventhook.DeliveryStatus(to.ID.String())], eventhook.DeliveryDead))
		}
		return of
	}
	others := eventhook.DeliveryStatus(other.ID.String())
	of := fresh()
	f.exec(`DELETE FROM eventhook.subscription WHERE id = $1`, [16]byte(gone.ID))
	for _, c := range []struct {
		claim string
		which func() eventhook.DeliverySelection
		want  []eventhook.DeliveryStatus
	}{
		{"failed and dead ones", func() eventhook.DeliverySelection { return eventhook.DeliverySelection{Limit: 10} }, []eventhook.DeliveryStatus{"dead", "failed", others}},
		{"of a subscription", func() eventhook.DeliverySelection {
			return eventhook.DeliverySelection{SubscriptionID: s.ID, Limit: 10}
		}, []eventhook.DeliveryStatus{"dead", "failed"}},
		{"in a state", func() eventhook.DeliverySelection {
			return eventhook.DeliverySelection{Statuses: []eventhook.DeliveryStatus{"dead"}, Limit: 10}
		}, []eventhook.DeliveryStatus{"dead", others}},
		{"successful ones, if selected", func() eventhook.DeliverySelection {
			return eventhook.DeliverySelection{Statuses: []eventhook.DeliveryStatus{"success", "pending", "acquired"}, Limit: 10}
		}, []eventhook.DeliveryStatus{"success"}},
		{"the newest", func() eventhook.DeliverySelection { return eventhook.DeliverySelection{SubscriptionID: s.ID, Limit: 1} }, []eventhook.DeliveryStatus{"failed"}},
		{"of an event", func() eventhook.DeliverySelection {
			return eventhook.DeliverySelection{EventID: of["dead"].EventID, Limit: 10}
		}, []eventhook.DeliveryStatus{"dead"}},
		{"since, inclusive", func() eventhook.DeliverySelection {
			return eventhook.DeliverySelection{Since: of["failed"].ID.Time(), Limit: 10}
		}, []eventhook.DeliveryStatus{"failed", others}},
		{"until, exclusive", func() eventhook.DeliverySelection {
			return eventhook.DeliverySelection{Until: of["failed"].ID.Time(), Limit: 10}
		}, []eventhook.DeliveryStatus{"dead"}},
		{"by their ids", func() eventhook.DeliverySelection {
			return eventhook.DeliverySelection{IDs: deliveryIDs(of["dead"], of["success"], of["pending"], of["acquired"], of[eventhook.DeliveryStatus(gone.ID.String())])}
		}, []eventhook.DeliveryStatus{"dead"}},
		{"by their ids, also successful ones", func() eventhook.DeliverySelection {
			return eventhook.DeliverySelection{IDs: deliveryIDs(of["success"]), Statuses: []eventhook.DeliveryStatus{"success"}}
		}, []eventhook.DeliveryStatus{"success"}},
	} {
		if c.claim != "failed and dead ones" {
			f.exec(`INSERT INTO eventhook.subscription (id, tenant_id, name, status, event_types, settings, secrets, created_at, updated_at)
				VALUES ($1, $2, 'x', 'active', '{*}', '{}', '-', $3, $3)`, [16]byte(gone.ID), [16]byte(f.tenant), noon)
			of = fresh()
			f.exec(`DELETE FROM eventhook.subscription WHERE id = $1`, [16]byte(gone.ID))
		}
		var want []*eventhook.Delivery
		for _, status := range c.want {
			want = append(want, of[status])
		}
		same(t, c.claim, f.restart(c.which()), deliveryIDs(want...))
	}
	d := f.claimedDeliveries(1, s)[0]
	f.settleDeliveries(f.db, f.settlement(d, eventhook.DeliveryDead))
	for want, status := range []string{"disabled", "paused"} { // 0 restarted, and 1
		f.exec(`UPDATE eventhook.subscription SET status = $2 WHERE id = $1`, [16]byte(s.ID), status)
		same(t, "of a subscription that is "+status, len(f.restart(eventhook.DeliverySelection{IDs: deliveryIDs(d)})), want)
	}
	d = f.claimedDeliveries(1, s)[0]
	f.settleDeliveries(f.db, f.settlement(d, eventhook.DeliveryDead))
	ids, err := f.db.RestartDeliveries(t.Context(), operator, f.secondTenant(), eventhook.DeliverySelection{IDs: deliveryIDs(d)})
	f.must(err)
	same(t, "by another tenant", len(ids), 0)
	f.exec(`DELETE FROM eventhook.event_payload WHERE event_id = $1`, [16]byte(d.EventID))
	same(t, "of an event whose data was dropped", len(f.restart(eventhook.DeliverySelection{IDs: deliveryIDs(d)})), 0)
}

// Restarting, abandoning and expiring skip deliveries that another transaction has locked.
func TestLockedDeliveriesAreSkipped(t *testing.T) {
	f := setUp(t)
	f.keep(Retention{})
	s, gone, paused := f.insertSubscription(), f.insertSubscription(), f.insertSubscription()
	dead, left, waiting := f.claimedDeliveries(2, s), f.publishTo(2, gone), f.publishTo(2, paused)
	f.settleDeliveries(f.db, f.settlement(dead[0], eventhook.DeliveryDead), f.settlement(dead[1], eventhook.DeliveryDead))
	f.exec(`DELETE FROM eventhook.subscription WHERE id = $1`, [16]byte(gone.ID))
	f.clock.Advance(3 * day)
	tx, err := f.other.work.Begin(t.Context())
	f.must(err)
	_, err = tx.Exec(t.Context(), `SELECT FROM eventhook.delivery WHERE id = ANY($1) FOR UPDATE`, uuids(deliveryIDs(dead[0], left[0], waiting[0])))
	f.must(err)
	look := func(want int) {
		t.Helper()
		same(t, "restarted", len(f.restart(eventhook.DeliverySelection{IDs: deliveryIDs(dead...)})), want)
		abandoned, err := f.db.AbandonDeliveries(t.Context(), eventhook.Destination{TenantID: gone.TenantID, SubscriptionID: gone.ID}, "gone", 10)
		f.must(err)
		same(t, "abandoned", abandoned, want)
		expired, err := f.db.ExpireDeliveries(t.Context(), day)
		f.must(err)
		same(t, "expired", expired, want)
	}
	look(1)
	f.must(tx.Rollback(t.Context()))
	look(1)
	look(0)
}

func TestManyDeliveriesAreRestartedInParts(t *testing.T) {
	f := setUp(t)
	s := f.insertSubscription()
	var batch []*outbound.DeliverySettlement
	for _, d := range f.claimedDeliveries(2300, s) {
		batch = append(batch, f.settlement(d, eventhook.DeliveryDead, func(s *outbound.DeliverySettlement) { s.DeadInRow = 0 }))
	}
	f.settleDeliveries(f.db, batch...)
	same(t, "restarted", len(f.restart(eventhook.DeliverySelection{SubscriptionID: s.ID, Limit: 2100})), 2100)
	same(t, "entries", f.count("audit_log", "action = 'delivery.retried'"), 3)
	same(t, "the oldest deliveries are not restarted", f.count("delivery", "status = 'dead' AND id < (SELECT min(id::text)::uuid FROM eventhook.delivery WHERE status = 'pending')"), 200)
}

// A delivery changes while another transaction restarts exactly the expected number.
func TestARestartOfAnExpectedNumberWaitsForChangesOfItsDeliveries(t *testing.T) {
	f := setUp(t)
	s := f.insertSubscription()
	list := f.dead(3, s)
	type result struct {
		restarted []eventhook.DeliveryID
		err       error
	}
	// restart restarts deliveries while another transaction holds and changes one of them.
	restart := func(change string, end func(pgx.Tx) error) (got result) {
		t.Helper()
		tx, err := f.other.work.Begin(t.Context())
		f.must(err)
		defer func() { _ = tx.Rollback(t.Context()) }()
		_, err = tx.Exec(t.Context(), change, [16]byte(list[0].ID))
		f.must(err)
		ended := make(chan result, 1)
		go func() {
			ids, err := f.db.RestartDeliveries(t.Context(), operator, f.tenant, eventhook.DeliverySelection{SubscriptionID: s.ID, Limit: 10, ExpectedCount: new(3)})
			ended <- result{ids, err}
		}()
		f.waitForBlocked(1)
		f.must(end(tx))
		return <-ended
	}
	got := restart(`UPDATE eventhook.delivery SET status = 'pending', due_at = '2026-03-10Z', completed_at = NULL, last_error = NULL WHERE id = $1`,
		func(tx pgx.Tx) error { return tx.Commit(t.Context()) })
	wantKind(t, "one is not dead any more", got.err, eventhook.KindConflict)
	if got.err == nil || !strings.Contains(got.err.Error(), "matches 2 deliveries, not 3") {
		t.Errorf("got the error %v, want one with the real number", got.err)
	}
	same(t, "dead", f.count("delivery", "status = 'dead'"), 2)
	f.exec(`UPDATE eventhook.delivery SET status = 'dead', due_at = NULL, completed_at = '2026-03-10Z', last_error = 'x' WHERE id = $1`, [16]byte(list[0].ID))
	got = restart(`UPDATE eventhook.delivery SET retry_count = 0 WHERE id = $1`, func(tx pgx.Tx) error { return tx.Rollback(t.Context()) })
	f.must(got.err)
	same(t, "restarted after a rollback", got.restarted, deliveryIDs(list...))
	same(t, "audit entries", len(f.audit(eventhook.AuditFilter{Action: "delivery.retried"})), 1)
}
