package pg

import (
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/outbound"
)

// DeliveriesWake returns a channel that is closed when deliveries may have become due on any
// instance. Call it before reading the database, so that no wake-up is lost in between.
func (db *DB) DeliveriesWake() <-chan struct{} { return db.hub.wait(deliveriesTopic) }

// WakeDeliveries wakes the dispatchers of all instances, because deliveries are due that this
// process does not claim itself.
func (db *DB) WakeDeliveries() { db.hub.wake(deliveriesTopic) }

// dueDestinationsSQL skips through the index delivery_due from destination to destination and
// reads the first row of each (a loose index scan). Its cost grows with the number of
// destinations that have open deliveries, not with the number of deliveries. The limit ends
// the scan.
const dueDestinationsSQL = `
WITH RECURSIVE destination AS (
    (SELECT tenant_id, destination_id, route_id, target_index, due_at FROM eventhook.delivery
     WHERE due_at IS NOT NULL AND destination_id > $2
     ORDER BY destination_id, due_at LIMIT 1)
    UNION ALL
    SELECT n.* FROM destination p CROSS JOIN LATERAL (
        SELECT tenant_id, destination_id, route_id, target_index, due_at FROM eventhook.delivery
        WHERE due_at IS NOT NULL AND destination_id > p.destination_id
        ORDER BY destination_id, due_at LIMIT 1) n
)
SELECT tenant_id, destination_id, route_id, target_index FROM destination WHERE due_at <= $1 LIMIT $3`

// DueDestinations lists destinations with an id greater than after that have due deliveries,
// in the order of their ids. It includes paused and disabled destinations. A list shorter than
// limit is the last page.
func (db *DB) DueDestinations(ctx context.Context, after eventhook.DestinationID, limit int) ([]outbound.DueDestination, error) {
	rows, err := db.work.Query(ctx, dueDestinationsSQL, db.now(), [16]byte(after), limit)
	if err != nil {
		return nil, translate("list due destinations", err)
	}
	list, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) (d outbound.DueDestination, err error) {
		var to destinationColumns
		err = r.Scan((*[16]byte)(&d.TenantID), &to.id, &to.route, &to.index)
		d.DestinationID = to.id
		if to.isOfRoute() {
			d.RouteID, d.TargetIndex = *to.route, *to.index
		}
		return d, err
	})
	return list, translate("list due destinations", err)
}

// claimDeliveriesSQL leases, for each destination, the deliveries that became due first. It
// skips deliveries that another instance is claiming. It takes the deliveries of the
// destinations in rounds and stops when the bodies of their events reach $5 bytes, which bounds
// memory; an event with several destinations counts once for each. The output of a transform
// counts as much as its event, since the two are about equally large. $4 is now. since is when a
// delivery became due, or the end of the last outage if that was later; NULL during an outage.
// Index delivery_due, then primary keys, in one partition each.
const claimDeliveriesSQL = claimPrefix + `d.due_at <= $4 ORDER BY d.due_at` + claimSuffix

// claimTriedSQL leases deliveries that were attempted before, the oldest first. It reads past
// deliveries whose next attempt is not due yet; a destination that is being probed has few of
// these. Index delivery_destination_status, then primary keys.
const claimTriedSQL = claimPrefix + `(d.due_at <= $4) IS TRUE AND d.status = 'failed' AND d.status IN ('failed', 'dead') ORDER BY d.id` + claimSuffix

const (
	claimPrefix = `
WITH due AS MATERIALIZED (
    SELECT u.n, u.lease, d.tenant_id, d.id, d.event_id, d.due_at,
        CASE WHEN h.circuit_opened_at IS NULL THEN greatest(d.due_at, d.restarted_at, h.outage_ended_at) END AS since
    FROM unnest($1::uuid[], $2::int4[], $3::interval[]) WITH ORDINALITY AS u (destination_id, max_count, lease, n)
    LEFT JOIN eventhook.subscription_health h ON h.subscription_id = u.destination_id
    CROSS JOIN LATERAL (
        SELECT d.tenant_id, d.id, d.event_id, d.due_at, d.restarted_at FROM eventhook.delivery d
        WHERE d.destination_id = u.destination_id AND `
	claimSuffix = ` LIMIT u.max_count FOR UPDATE SKIP LOCKED) d
), sized AS MATERIALIZED (
    SELECT d.*, row_number() OVER (PARTITION BY d.n ORDER BY d.due_at) AS round,
        coalesce((SELECT e.body_size FROM eventhook.event e WHERE e.tenant_id = d.tenant_id AND e.id = d.event_id), 0) AS size
    FROM due d
), c AS MATERIALIZED (
    SELECT tenant_id, id, lease, since FROM (
        SELECT tenant_id, id, lease, since, size, sum(size::bigint) OVER (ORDER BY round, n ROWS UNBOUNDED PRECEDING) - size AS before FROM sized) s
    WHERE before < $5
)
UPDATE eventhook.delivery d
SET status = 'acquired', due_at = $4::timestamptz + c.lease, lease_token = d.lease_token + 1, acquired_by = $6, agent_leases = NULL
FROM c
WHERE d.tenant_id = c.tenant_id AND d.id = c.id
RETURNING d.id, d.tenant_id, d.destination_id, d.route_id, d.target_index, d.has_body, d.event_id, d.event_type, d.lease_token, d.due_at, d.attempts, d.retry_count, d.restarted_at, d.order_key, d.released_by IS NOT NULL, c.since`
)

// ClaimDeliveries leases due deliveries of the claimed destinations, in the order that each
// claim specifies, and reads their events. When bodies are large it returns fewer deliveries
// than the claims allow. No other instance gets the deliveries while the leases last. At most
// one claim may name a destination. An event past its retention has no Body. If ClaimDeliveries
// cannot read the events, it returns the leased deliveries with the error; after any other
// error, leases that it has taken expire unused.
func (db *DB) ClaimDeliveries(ctx context.Context, claims []outbound.Claim) ([]*eventhook.Delivery, error) {
	if db.Fit() != nil {
		return nil, nil //nolint:nilerr // another instance can send them
	}
	list, err := db.claimDeliveries(ctx, claimTriedSQL, slices.DeleteFunc(slices.Clone(claims), func(c outbound.Claim) bool { return !c.TriedFirst }))
	if err != nil {
		return nil, translate("claim deliveries", err)
	}
	more, err := db.claimDeliveries(ctx, claimDeliveriesSQL, slices.DeleteFunc(slices.Clone(claims), func(c outbound.Claim) bool {
		return slices.ContainsFunc(list, func(d *eventhook.Delivery) bool { return d.DestinationID == c.DestinationID })
	}))
	list = append(list, more...)
	if err != nil || len(list) == 0 {
		return nil, translate("claim deliveries", err)
	}
	if err := db.readPublished(ctx, list); err != nil {
		return list, err
	}
	return list, db.readBodies(ctx, list)
}

// claimDeliveries leases the deliveries that sql selects for the claims.
func (db *DB) claimDeliveries(ctx context.Context, sql string, claims []outbound.Claim) ([]*eventhook.Delivery, error) {
	if len(claims) == 0 {
		return nil, nil
	}
	destinations, counts, leases := make([][16]byte, len(claims)), make([]int32, len(claims)), make([]time.Duration, len(claims))
	for i, c := range claims {
		destinations[i], counts[i], leases[i] = c.DestinationID, int32(c.Max), c.Lease
	}
	rows, err := db.work.Query(ctx, sql, destinations, counts, leases, db.now(), maxClaimBytes, [16]byte(db.instance))
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(r pgx.CollectableRow) (*eventhook.Delivery, error) {
		d := &eventhook.Delivery{Status: eventhook.DeliveryAcquired}
		var to destinationColumns
		var hasBody bool
		var order *[16]byte
		var since *time.Time
		err := r.Scan((*[16]byte)(&d.ID), (*[16]byte)(&d.TenantID), &to.id, &to.route, &to.index, &hasBody, (*[16]byte)(&d.EventID), &d.EventType,
			&d.Lease.Token, &d.Lease.Until, &d.Attempts, &d.RetryCount, &d.RestartedAt, &order, &d.IsReleased, &since)
		to.set(d)
		if since != nil {
			d.DueSince = *since
		}
		if order != nil {
			d.OrderKey = *order
		}
		if hasBody {
			d.Body = []byte{} // readBodies reads it
		}
		return d, err
	})
}

const releaseDeliveriesSQL = `
UPDATE eventhook.delivery d SET status = CASE WHEN d.retry_count > 0 THEN 'failed' ELSE 'pending' END, due_at = $4
FROM unnest($1::uuid[], $2::uuid[], $3::int8[]) AS u (tenant_id, id, lease_token)
WHERE d.tenant_id = u.tenant_id AND d.id = u.id AND d.lease_token = u.lease_token AND d.status = 'acquired'`

// ReleaseDeliveries ends the leases of deliveries, which are due again at once. It wakes no
// dispatcher. It does not change a delivery whose lease was lost. Primary key.
func (db *DB) ReleaseDeliveries(ctx context.Context, list []*eventhook.Delivery) error {
	tenants, ids, tokens := make([][16]byte, len(list)), make([][16]byte, len(list)), make([]int64, len(list))
	for i, d := range list {
		tenants[i], ids[i], tokens[i] = d.TenantID, d.ID, d.Lease.Token
	}
	_, err := db.work.Exec(ctx, releaseDeliveriesSQL, tenants, ids, tokens, db.now())
	return translate("release deliveries", err)
}

// reserveSendsSQL reserves the next sends of subscriptions with a rate limit: from now on, or
// from the end of the last reservation. Instances that share a subscription wait for each
// other's row locks, in the order of ids. Primary keys; the row changes in place (HOT).
const reserveSendsSQL = `
INSERT INTO eventhook.subscription_health AS h (subscription_id, paced_until)
SELECT s.id, $3::timestamptz + u.span
FROM unnest($1::uuid[], $2::interval[]) AS u (id, span) JOIN eventhook.subscription s ON s.id = u.id
ORDER BY s.id
ON CONFLICT (subscription_id) DO UPDATE
    SET paced_until = greatest(h.paced_until, $3) + (excluded.paced_until - $3)
RETURNING subscription_id, paced_until`

// ReserveSends reserves sends of subscriptions with a rate limit, across all instances. For
// each request it returns when the first send may start; the next ones follow at intervals of
// 1/PerSecond. A reservation that is not used is lost. For a subscription that does not exist
// any more, it returns the current time.
func (db *DB) ReserveSends(ctx context.Context, list []outbound.SendReservation) ([]time.Time, error) {
	now := db.now()
	spans := make(map[eventhook.DestinationID]time.Duration, len(list))
	for _, r := range list {
		spans[r.DestinationID] += sendSpan(r)
	}
	var ids [][16]byte
	var lengths []time.Duration
	for id, span := range spans {
		ids, lengths = append(ids, id), append(lengths, span)
	}
	next, err := db.reserveSends(ctx, ids, lengths, now)
	if hasCode(err, codeForeignKey) { // a subscription was deleted concurrently
		next, err = db.reserveSends(ctx, ids, lengths, now)
	}
	if err != nil {
		return nil, translate("reserve sends", err)
	}
	starts := make([]time.Time, len(list))
	for i, r := range list {
		until, ok := next[r.DestinationID]
		if !ok {
			starts[i] = now
			continue
		}
		starts[i] = until.Add(-spans[r.DestinationID])
		spans[r.DestinationID] -= sendSpan(r)
	}
	return starts, nil
}

// sendSpan returns how long the sends of a request take at its rate.
func sendSpan(r outbound.SendReservation) time.Duration {
	return (time.Duration(r.Count) * time.Second / time.Duration(max(r.PerSecond, 1))).Truncate(time.Microsecond)
}

func (db *DB) reserveSends(ctx context.Context, ids [][16]byte, spans []time.Duration, now time.Time) (map[eventhook.DestinationID]time.Time, error) {
	rows, err := db.work.Query(ctx, reserveSendsSQL, ids, spans, now)
	if err != nil {
		return nil, err
	}
	until := make(map[eventhook.DestinationID]time.Time, len(ids))
	var id eventhook.DestinationID
	var at time.Time
	_, err = pgx.ForEachRow(rows, []any{(*[16]byte)(&id), &at}, func() error {
		until[id] = at
		return nil
	})
	return until, err
}
