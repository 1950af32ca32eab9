package pg

import (
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/outbound/replay"
)

// restartDeliveriesSQL makes deliveries due and resets their retries. It skips rows that
// another transaction has locked, so it never waits. For a replay it also skips deliveries that
// were restarted since @created, unless they are dead, and deliveries that recovery has
// restarted @max_recoveries times; both are NULL otherwise. It increments the lease token, since a
// settle may still arrive with the old one. It checks in the same transaction that the payload
// exists: while the transaction runs, no partition that it has read can be dropped. Each id
// comes with its tenant: with a single tenant parameter, the planner would choose to read all
// deliveries of the tenant while a partition is empty, and would keep that plan. Primary keys.
var restartDeliveriesSQL = `
WITH chosen AS MATERIALIZED (
    SELECT d.tenant_id, d.id, u.due_at
    FROM unnest(@tenants::uuid[], @ids::uuid[], @due_at::timestamptz[]) AS u (tenant_id, id, due_at)
    JOIN eventhook.delivery d ON d.tenant_id = u.tenant_id AND d.id = u.id
    WHERE (d.status = ANY(@statuses::text[])) IS TRUE
      AND (d.status = 'dead' OR (d.restarted_at >= @created::timestamptz) IS NOT TRUE)
      AND (d.recoveries >= @max_recoveries::int) IS NOT TRUE
      AND (EXISTS (SELECT FROM eventhook.subscription s WHERE s.id = d.destination_id AND s.status <> 'disabled')
        OR EXISTS (SELECT FROM eventhook.route r WHERE r.id = d.route_id AND ` + isDestination(`(r.targets->(d.target_index::int))`) + `))
      AND EXISTS (SELECT FROM eventhook.event e JOIN eventhook.event_payload p ON p.event_id = coalesce(e.payload_of, e.id)
        WHERE e.tenant_id = d.tenant_id AND e.id = d.event_id)
    FOR UPDATE OF d SKIP LOCKED
)
UPDATE eventhook.delivery d
SET status = 'pending', due_at = c.due_at, restarted_at = @now, completed_at = NULL, lease_token = d.lease_token + 1, retry_count = 0,
    released_by = coalesce(@replay::uuid, d.released_by), recoveries = d.recoveries + CASE WHEN @max_recoveries::int IS NULL THEN 0 ELSE 1 END
FROM chosen c
WHERE d.tenant_id = c.tenant_id AND d.id = c.id
RETURNING d.id, d.tenant_id, d.event_id, d.route_id IS NOT NULL`

// reopenEventsSQL sets events back to processing, with due_at NULL, after deliveries of their
// routes were restarted, so that their state follows from these deliveries again; see
// concludeEventsSQL. An event with an action that failed otherwise stays dead, and an event
// that is open itself does not change. Primary keys.
const reopenEventsSQL = `
UPDATE eventhook.event e
SET status = 'processing', processed_at = NULL, last_error = NULL, lease_token = e.lease_token + 1
FROM unnest($1::uuid[], $2::uuid[]) AS u (tenant_id, id)
WHERE e.tenant_id = u.tenant_id AND e.id = u.id AND e.status IN ('delivered', 'dead')
  AND NOT EXISTS (SELECT FROM json_array_elements(e.actions) a WHERE a->>'s' = 'failed')
RETURNING e.id`

const (
	maxRestarted     = 10_000 // deliveries of one call
	restartBatchSize = 1_000  // deliveries of one transaction, without an expected number
)

// lockEventsOfSQL locks the events of routes' deliveries, in the order of their ids, before the
// deliveries are restarted. A transaction that settles such an event restarts its deliveries,
// too, and locks the event first. Primary keys.
const lockEventsOfSQL = `
WITH of AS MATERIALIZED (
    SELECT DISTINCT d.tenant_id, d.event_id FROM unnest($1::uuid[], $2::uuid[]) AS u (tenant_id, id)
    JOIN eventhook.delivery d ON d.tenant_id = u.tenant_id AND d.id = u.id WHERE d.route_id IS NOT NULL
)
SELECT FROM of JOIN eventhook.event e ON e.tenant_id = of.tenant_id AND e.id = of.event_id
ORDER BY e.id FOR UPDATE OF e`

// RestartDeliveries makes a tenant's deliveries due now, with all their retries available
// again, and returns their ids, newest first. If the selection names no states, it restarts
// failed and dead deliveries; it may also name success. It does not restart
//
//   - pending and acquired deliveries;
//   - deliveries of a deleted or disabled subscription, or of a deleted route or target;
//   - deliveries of an event whose data is past its retention;
//   - deliveries that another transaction is changing.
//
// Restarted deliveries of a paused subscription or a disabled route wait. The events of a
// route's deliveries are processing again, unless another of their actions has failed.
//
// It restarts at most the newest 10,000 deliveries of the selection, in transactions of a
// thousand, each with its audit entry. If it fails, it returns the deliveries that it has
// restarted so far, with the error.
//
// If which.ExpectedCount is set, all deliveries are restarted in one transaction with one audit
// entry. If the selection matches another number of deliveries, RestartDeliveries restarts none, and
// the error is KindConflict. A delivery that changes or begins to match after they were counted
// is not restarted unless they are counted again.
//
// For the operator tenant, which.SubscriptionID is one of its subscriptions.
func (db *DB) RestartDeliveries(ctx context.Context, by eventhook.Actor, tenant eventhook.TenantID, which eventhook.DeliverySelection) ([]eventhook.DeliveryID, error) {
	if which.ExpectedCount != nil {
		return db.restartExpected(ctx, by, tenant, which)
	}
	statuses := restartableStatuses(which.Statuses)
	candidates, err := selectedDeliveries(ctx, db.lists, tenant, which, statuses)
	if err != nil {
		return nil, translate("list deliveries", err)
	}
	var restarted []eventhook.DeliveryID
	for part := range slices.Chunk(candidates, restartBatchSize) {
		more, err := db.restartBatch(ctx, by, restart{tenant: tenant, rows: part, statuses: statuses})
		restarted = append(restarted, more...)
		if err != nil {
			return restarted, err
		}
		if len(more) > 0 {
			db.WakeDeliveries()
		}
	}
	return restarted, nil
}

// restartableStatuses returns the states from which deliveries are restarted.
func restartableStatuses(wanted []eventhook.DeliveryStatus) (statuses []string) {
	if len(wanted) == 0 {
		wanted = []eventhook.DeliveryStatus{eventhook.DeliveryFailed, eventhook.DeliveryDead}
	}
	for _, s := range []eventhook.DeliveryStatus{eventhook.DeliveryFailed, eventhook.DeliveryDead, eventhook.DeliverySuccess} {
		if slices.Contains(wanted, s) {
			statuses = append(statuses, string(s))
		}
	}
	return statuses
}

func (db *DB) restartBatch(ctx context.Context, by eventhook.Actor, r restart) (restarted []eventhook.DeliveryID, err error) {
	var reopened []eventhook.EventID
	r.now = db.now()
	err = db.mutate(ctx, "restart deliveries", by, r.tenant, func(m *mutation) error {
		var events []eventKey
		restarted, events, err = restartInTx(ctx, m.tx, r)
		if err != nil || len(restarted) == 0 {
			return err
		}
		if reopened, err = reopenEvents(ctx, m.tx, events); err != nil {
			return err
		}
		slices.SortFunc(restarted, newerDelivery)
		return recordBulk(m, "delivery.retried", "delivery", "deliveries", restarted)
	})
	if err != nil {
		return nil, err
	}
	db.feed.eventsChanged(db.now(), r.tenant, reopened...)
	return restarted, nil
}

// restart selects the deliveries of restartInTx.
type restart struct {
	tenant   eventhook.TenantID // that restarts them
	rows     []rowKey
	statuses []string
	now      time.Time
	isExact  bool        // if one of them is not in these states, none is restarted: errSelectionChanged
	dueAt    []time.Time // of each row; nil: now
	job      *replay.Job // the replay that restarts the deliveries; nil without one
}

func (r restart) args() pgx.StrictNamedArgs {
	tenants, ids := keysOf(r.rows)
	args := pgx.StrictNamedArgs{"tenants": tenants, "ids": ids, "due_at": r.dueAt,
		"statuses": r.statuses, "now": r.now, "created": nil, "replay": nil, "max_recoveries": nil}
	if r.dueAt == nil {
		args["due_at"] = slices.Repeat([]time.Time{r.now}, len(r.rows))
	}
	if r.job != nil {
		args["created"], args["replay"] = r.job.CreatedAt, [16]byte(r.job.ID)
		if r.job.Kind == eventhook.ReplayRecovery {
			args["max_recoveries"] = replay.MaxRecoveries
		}
	}
	return args
}

// restartInTx restarts deliveries. It returns their ids, and the events of those that belong
// to routes.
func restartInTx(ctx context.Context, tx pgx.Tx, r restart) (restarted []eventhook.DeliveryID, events []eventKey, err error) {
	if err := r.lock(ctx, tx); err != nil {
		return nil, nil, err
	}
	rows, err := tx.Query(ctx, restartDeliveriesSQL, r.args())
	if err != nil {
		return nil, nil, err
	}
	var id eventhook.DeliveryID
	var of eventKey
	var isOfRoute bool
	_, err = pgx.ForEachRow(rows, []any{(*[16]byte)(&id), (*[16]byte)(&of.tenant), (*[16]byte)(&of.id), &isOfRoute}, func() error {
		if restarted = append(restarted, id); isOfRoute {
			events = append(events, of)
		}
		return nil
	})
	return restarted, events, err
}

// lock locks the order of the deliveries' keys, then the events of routes' deliveries, which a
// replay does not restart, and, for an exact restart, the deliveries.
func (r restart) lock(ctx context.Context, tx pgx.Tx) error {
	tenants, ids := keysOf(r.rows)
	if _, err := tx.Exec(ctx, lockOrderOfSQL, tenants, ids); err != nil {
		return err
	}
	if r.job == nil {
		if _, err := tx.Exec(ctx, lockEventsOfSQL, tenants, ids); err != nil {
			return err
		}
	}
	return r.lockExact(ctx, tx)
}

// reopenEvents returns the events that are processing again. The transaction holds their locks.
func reopenEvents(ctx context.Context, tx pgx.Tx, events []eventKey) ([]eventhook.EventID, error) {
	if len(events) == 0 {
		return nil, nil
	}
	var tenants, ids [][16]byte
	for _, e := range events {
		tenants, ids = append(tenants, e.tenant), append(ids, e.id)
	}
	rows, err := tx.Query(ctx, reopenEventsSQL, tenants, ids)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, scanEventID)
}

// selectedDeliveries returns the keys of the selected deliveries, newest first.
func selectedDeliveries(ctx context.Context, lists batcher, tenant eventhook.TenantID, which eventhook.DeliverySelection,
	statuses []string) (all []rowKey, err error) {
	for _, id := range which.IDs[:min(len(which.IDs), maxRestarted)] {
		all = append(all, rowKey{tenant, id})
	}
	if len(all) > 0 {
		return all, nil
	}
	if which.Group != "" {
		all, _, err = groupDeliveries(ctx, lists, tenant, which, min(which.Limit, maxRestarted))
		return all, err
	}
	f, from, before := selectionFilter(which)
	for _, status := range statuses {
		f.Status = eventhook.DeliveryStatus(status)
		list, err := listDeliveries(ctx, lists, tenant, f, from, before)
		if err != nil {
			return nil, err
		}
		for _, d := range list {
			all = append(all, rowKey{d.TenantID, d.ID})
		}
	}
	slices.SortFunc(all, func(x, y rowKey) int { return newerDelivery(x.id, y.id) })
	return all[:min(len(all), f.Limit)], nil
}

// selectionFilter returns the filter of a list of the selected deliveries, without a status,
// and the bounds of their ids.
func selectionFilter(which eventhook.DeliverySelection) (f eventhook.DeliveryFilter, from, before eventhook.DeliveryID) {
	f = eventhook.DeliveryFilter{SubscriptionID: which.SubscriptionID, RouteID: which.RouteID, EventID: which.EventID,
		CreatedBefore: which.Until,
		Limit:         min(which.Limit, maxRestarted)}
	from, before = deliveryBounds(f)
	if since := eventhook.FirstID[eventhook.Delivery](which.Since); !which.Since.IsZero() && string(since[:]) > string(from[:]) {
		from = since
	}
	return f, from, before
}

func newerDelivery(x, y eventhook.DeliveryID) int { return -slices.Compare(x[:], y[:]) }
