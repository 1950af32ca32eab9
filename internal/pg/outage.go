package pg

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/outbound"
)

// An outage of a subscription runs from the first failure after a success to the next success,
// if the circuit breaker of an instance opened or failures disabled the subscription meanwhile.
// It is stored in subscription_health. Its end inserts a recovery: a replay of the deliveries
// that became dead in it.

// clockSkew is the maximum difference between the clocks of two instances. An outage begins
// this much earlier for its recovery, since other instances wrote the times of its dead
// deliveries.
const clockSkew = 10 * time.Second

// openOutagesSQL records that the circuit breakers of subscriptions are open. It writes nothing
// while an outage with an open circuit is recorded. Primary keys. Locks: subscriptions against
// deletion, then their health.
var openOutagesSQL = newStatement("open_outages", `
INSERT INTO eventhook.subscription_health AS h (subscription_id, failing_since, circuit_opened_at, next_probe_at)
SELECT s.id, outages.since, @now::timestamptz, @now::timestamptz + interval '1 minute'
FROM @outages(subscription_id uuid, since timestamptz) JOIN eventhook.subscription s ON s.id = outages.subscription_id
WHERE s.status <> 'disabled' AND NOT EXISTS (
    SELECT FROM eventhook.subscription_health o WHERE o.subscription_id = s.id AND o.circuit_opened_at IS NOT NULL)
ORDER BY s.id FOR KEY SHARE OF s
ON CONFLICT (subscription_id) DO UPDATE SET failing_since = coalesce(h.failing_since, excluded.failing_since),
    circuit_opened_at = coalesce(h.circuit_opened_at, excluded.circuit_opened_at), next_probe_at = coalesce(h.next_probe_at, excluded.next_probe_at)`)

var (
	openOutageSubscription = openOutagesSQL.uuid("outages.subscription_id")
	openOutageSince        = openOutagesSQL.time("outages.since")
	openOutageNow          = openOutagesSQL.moment("now")
)

// queueOutages queues the statement that records the outages of a batch.
func queueOutages(b *pgconn.Batch, c *columns, batch []*outbound.DeliverySettlement, now time.Time) {
	c.reset()
	seen := map[eventhook.SubscriptionID]bool(nil)
	for _, s := range batch {
		if !s.CircuitOpen || s.Delivery.IsOfRoute() || seen[s.Delivery.SubscriptionID] {
			continue
		}
		if seen == nil {
			seen = map[eventhook.SubscriptionID]bool{}
		}
		seen[s.Delivery.SubscriptionID] = true
		c.uuid(openOutageSubscription, s.Delivery.SubscriptionID)
		c.time(openOutageSince, s.FailingSince)
	}
	c.moment(openOutageNow, now)
	batchSender(b).rows(openOutagesSQL, c)
}

// openOutages records the outages of a batch in a transaction that has locked subscriptions.
func openOutages(ctx context.Context, conn *pgconn.PgConn, batch []*outbound.DeliverySettlement, now time.Time) error {
	b, c := &pgconn.Batch{}, newColumns(openOutagesSQL)
	if queueOutages(b, c, batch, now); c.isEmpty() {
		return nil
	}
	_, err := conn.ExecBatch(ctx, b).ReadAll()
	return err
}

// endOutages are the last parts of a statement with the CTE failing: the locked rows of
// subscription_health of subscriptions with a success. The success ends the outage, and inserts
// the recovery. A subscription that failures have disabled stays so: the success only makes its
// next probe due now.
const endOutageSet = `failing_since = CASE WHEN h.is_held THEN h.failing_since END, circuit_opened_at = CASE WHEN h.is_held THEN h.circuit_opened_at END,
        next_probe_at = CASE WHEN h.is_held THEN @now::timestamptz END, probes = CASE WHEN h.is_held THEN h.probes ELSE 0 END,
        probing_until = CASE WHEN h.is_held THEN h.probing_until END,
        outage_ended_at = CASE WHEN h.is_held OR h.failing_since IS NULL THEN h.outage_ended_at ELSE @now::timestamptz END`

// insertRecoveries returns the part that inserts the recoveries of the outages in failing, with their
// end and with the time at which their first step is due.
func insertRecoveries(until, dueAt string) string {
	return `
    INSERT INTO eventhook.replay (id, tenant_id, subscription_id, kind, since, until, due_at, created_at)
    SELECT (lpad(to_hex((extract(epoch FROM @now::timestamptz) * 1000)::int8), 12, '0') || '7' || substr(replace(gen_random_uuid()::text, '-', ''), 14))::uuid,
        s.tenant_id, s.id, 'recovery', f.failing_since - interval '10 seconds', ` + until + `, ` + dueAt + `, @now
    FROM failing f JOIN eventhook.subscription s ON s.id = f.subscription_id
    WHERE f.failing_since IS NOT NULL AND NOT f.is_held AND (s.settings->'recovery'->>'enabled' = 'false') IS NOT TRUE`
}

// endOutagesSQL ends the outages of subscriptions with a success. It resets the counts of dead
// deliveries of these subscriptions, except of @counted. Primary keys; the caller has locked
// the rows.
var endOutagesSQL = `
WITH failing AS MATERIALIZED (
    SELECT h.subscription_id, h.failing_since, h.is_held FROM eventhook.subscription_health h
    WHERE h.subscription_id = ANY (@succeeded::uuid[]) AND (h.dead_in_row > 0 OR h.failing_since IS NOT NULL)
    ORDER BY h.subscription_id FOR UPDATE
), reset AS (
    UPDATE eventhook.subscription_health h
    SET dead_in_row = CASE WHEN h.subscription_id = ANY (@counted::uuid[]) THEN h.dead_in_row ELSE 0 END,
        dead_since = CASE WHEN h.subscription_id = ANY (@counted::uuid[]) THEN h.dead_since END, ` + endOutageSet + `
    FROM failing f WHERE h.subscription_id = f.subscription_id
)` + insertRecoveries("@now", "@now")

// endOutages ends the outages of the subscriptions in succeeded. It resets the counts of dead
// deliveries of the subscriptions that are not in counted. It locks the subscription_health
// rows of both in one statement, so that all transactions lock these rows in the same order. It
// returns the number of recoveries that begin.
func endOutages(ctx context.Context, tx pgx.Tx, succeeded map[eventhook.SubscriptionID]bool,
	counted map[eventhook.SubscriptionID]*deadCount, now time.Time) (recovered int, err error) {
	if len(succeeded) == 0 {
		return 0, nil
	}
	ids, others := uuids(slices.Collect(maps.Keys(succeeded))), uuids(slices.Collect(maps.Keys(counted)))
	if _, err := tx.Exec(ctx, lockHealthSQL, slices.Concat(ids, others)); err != nil {
		return 0, err
	}
	tag, err := tx.Exec(ctx, endOutagesSQL, pgx.StrictNamedArgs{"succeeded": ids, "counted": others, "now": now})
	return int(tag.RowsAffected()), err
}

// recoveriesBegan counts recoveries that a committed transaction began, and wakes the workers of replays.
func (db *DB) recoveriesBegan(n int) {
	db.observer.OutagesRecovered(n)
	if n > 0 {
		db.hub.wake(replaysTopic)
	}
}

// recoverLateSQL begins another recovery of the latest outage, for deliveries that an attempt from
// before its end has made dead. It covers what became dead since shortly before that end. The
// recovery waits ten seconds, so that one recovery serves several such deliveries. If a recovery has
// not had its first step, it serves them; the lock delays that step until the deliveries are
// committed. Index replay_subscription and primary keys. The caller has locked the health rows.
var recoverLateSQL = `
WITH waiting AS MATERIALIZED (
    SELECT r.subscription_id, r.until FROM eventhook.replay r
    WHERE r.subscription_id = ANY (@late::uuid[]) AND r.kind = 'recovery' AND r.status = 'running' AND r.lease_token = 0 FOR SHARE
), failing AS (
    SELECT h.subscription_id, h.outage_ended_at AS failing_since, h.is_held FROM eventhook.subscription_health h
    WHERE h.subscription_id = ANY (@late::uuid[])
      AND NOT EXISTS (SELECT FROM waiting w WHERE w.subscription_id = h.subscription_id AND w.until >= h.outage_ended_at)
)` + insertRecoveries("f.failing_since", "@now::timestamptz + interval '10 seconds'")

// recoverLate begins recoveries for the subscriptions in late.
func recoverLate(ctx context.Context, tx pgx.Tx, late []eventhook.SubscriptionID, now time.Time) error {
	if len(late) == 0 {
		return nil
	}
	_, err := tx.Exec(ctx, recoverLateSQL, pgx.StrictNamedArgs{"late": uuids(late), "now": now})
	return err
}

// renewStaleSQL makes deliveries that are too old to be sent due again, if an outage of their
// subscription explains their age: it ended after they were created or released, or has not
// ended. Their age counts from then on. It renews no delivery of an event older than
// recovery.max_age_hours. Primary keys.
const renewStaleSQL = `
UPDATE eventhook.delivery d
SET status = CASE WHEN d.retry_count > 0 THEN 'failed' ELSE 'pending' END, due_at = stale.created_at, restarted_at = o.until
FROM unnest(@tenants::uuid[], @ids::uuid[], @subscriptions::uuid[], @tokens::int8[], @created::timestamptz[])
    AS stale (tenant_id, id, subscription_id, lease_token, created_at)
JOIN eventhook.subscription s ON s.id = stale.subscription_id AND (s.settings->'recovery'->>'enabled' = 'false') IS NOT TRUE
JOIN LATERAL (
    SELECT CASE WHEN h.failing_since IS NULL THEN h.outage_ended_at ELSE @now::timestamptz END AS until
    FROM eventhook.subscription_health h WHERE h.subscription_id = s.id) o ON true
WHERE d.tenant_id = stale.tenant_id AND d.id = stale.id AND d.lease_token = stale.lease_token AND d.status = 'acquired'
  AND o.until > coalesce(d.restarted_at, stale.created_at)
  AND stale.created_at > @now::timestamptz - make_interval(hours => coalesce((s.settings->'recovery'->>'max_age_hours')::int, @default_hours::int))
RETURNING d.id`

// renewStale makes the stale deliveries of a batch due again that an outage has held up, and
// returns the other settlements.
func renewStale(ctx context.Context, tx pgx.Tx, batch []*outbound.DeliverySettlement,
	now time.Time) ([]*outbound.DeliverySettlement, error) {
	var tenants, ids, subscriptions [][16]byte
	var tokens []int64
	var created []time.Time
	for _, s := range batch {
		if d := s.Delivery; s.IsStale && !d.IsOfRoute() {
			tenants, ids, subscriptions = append(tenants, d.TenantID), append(ids, d.ID), append(subscriptions, d.SubscriptionID)
			tokens, created = append(tokens, d.Lease.Token), append(created, d.EventID.Time())
		}
	}
	if len(ids) == 0 {
		return batch, nil
	}
	rows, err := tx.Query(ctx, renewStaleSQL, pgx.StrictNamedArgs{"tenants": tenants, "ids": ids, "subscriptions": subscriptions,
		"tokens": tokens, "created": created,
		"now": now, "default_hours": eventhook.DefaultRecoveryHours})
	if err != nil {
		return nil, err
	}
	renewed := map[eventhook.DeliveryID]bool{}
	var id eventhook.DeliveryID
	if _, err := pgx.ForEachRow(rows, []any{(*[16]byte)(&id)}, func() error { renewed[id] = true; return nil }); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(slices.Clone(batch), func(s *outbound.DeliverySettlement) bool { return renewed[s.Delivery.ID] }), nil
}

// The changes of an outage with the status of its subscription. Primary key.
const (
	// resumeHealthSQL: the subscription became active. Its receiver is probed at once if an
	// outage has not ended.
	resumeHealthSQL = `
UPDATE eventhook.subscription_health
SET dead_in_row = 0, dead_since = NULL, is_held = false, probes = 0, probing_until = NULL,
    next_probe_at = CASE WHEN failing_since IS NOT NULL THEN @now::timestamptz END
WHERE subscription_id = @id AND (dead_in_row > 0 OR failing_since IS NOT NULL OR is_held)`
	// holdDeliveriesSQL: failures have disabled the subscription.
	holdDeliveriesSQL = `
INSERT INTO eventhook.subscription_health AS h (subscription_id, failing_since, circuit_opened_at, is_held, next_probe_at)
VALUES (@id, @now, @now, true, @now::timestamptz + interval '1 minute')
ON CONFLICT (subscription_id) DO UPDATE SET failing_since = coalesce(h.failing_since, h.dead_since, excluded.failing_since),
    circuit_opened_at = coalesce(h.circuit_opened_at, excluded.circuit_opened_at), is_held = true, next_probe_at = excluded.next_probe_at,
    probes = 0, probing_until = NULL`
	// stopProbesSQL: the subscription was paused, or disabled by another cause than failures.
	// Its outage continues.
	stopProbesSQL = `
UPDATE eventhook.subscription_health SET is_held = false, next_probe_at = NULL, probing_until = NULL
WHERE subscription_id = @id AND @now::timestamptz IS NOT NULL AND (is_held OR next_probe_at IS NOT NULL)`
	// probeNowSQL: the address changed. The new receiver is probed at once.
	probeNowSQL = `
UPDATE eventhook.subscription_health SET next_probe_at = @now, probes = 0 WHERE subscription_id = @id AND next_probe_at IS NOT NULL`
)

// updateOutage updates the outage of a subscription whose status or address changes.
func (m *mutation) updateOutage(ctx context.Context, have, want eventhook.Subscription) error {
	var sql string
	switch isChanged := have.Status != want.Status || have.DisabledBy != want.DisabledBy; {
	case want.HoldsDeliveries() && !have.HoldsDeliveries():
		sql = holdDeliveriesSQL
	case want.Status == eventhook.SubscriptionActive && isChanged:
		sql = resumeHealthSQL
	case isChanged || have.HoldsDeliveries() && !want.HoldsDeliveries():
		sql = stopProbesSQL
	case !have.URL.Equal(want.URL):
		sql = probeNowSQL
	default:
		return nil
	}
	return m.exec(ctx, sql, pgx.StrictNamedArgs{"id": [16]byte(have.ID), "now": m.db.now()})
}
