package pg

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/eventhook/eventhook"
)

// The statements of the queue metrics run every few seconds on each instance. They find rows by
// indexes only, count at most eventhook.MaxQueueDepth rows of a kind, and end with the
// statement timeout of the pool for lists. A statement that counted 100 000 rows took up to
// 350 ms on a busy machine; telemetry.WatchQueues runs slow ones more seldom.

// closingTenants lists the closed tenants whose open work has not ended yet. It counts in no
// queue metric. Index tenant_cleanup_due: the row of a closing is due until the closing ends.
const closingTenants = `ARRAY(SELECT tenant_id FROM eventhook.tenant_cleanup WHERE due_at IS NOT NULL AND close_completed_at IS NULL)`

// eventQueueSQL counts due events and returns when the oldest became due. Index event_due.
const eventQueueSQL = `
SELECT count(*), min(due_at) FROM (
    SELECT due_at FROM eventhook.event WHERE due_at <= @now AND tenant_id <> ALL(` + closingTenants + `) ORDER BY due_at LIMIT @bound) e`

// EventQueue returns the state of the queue of events.
func (db *DB) EventQueue(ctx context.Context) (eventhook.QueueState, error) {
	return db.queueState(ctx, eventQueueSQL, pgx.StrictNamedArgs{})
}

// maxCountedQueues is the number of queues of executions, and of tenants with suspended
// workflows, of which the work is counted.
const maxCountedQueues = 1000

// executionQueueSQL skips from queue to queue in the index execution_due and counts the due
// executions of each.
const executionQueueSQL = `
WITH RECURSIVE first AS (
    (SELECT tenant_id, queue, 1 AS n FROM eventhook.execution WHERE due_at IS NOT NULL
     ORDER BY tenant_id, queue, due_at LIMIT 1)
    UNION ALL
    SELECT n.tenant_id, n.queue, f.n + 1 FROM first f CROSS JOIN LATERAL (
        SELECT tenant_id, queue FROM eventhook.execution
        WHERE due_at IS NOT NULL AND (tenant_id, queue) > (f.tenant_id, f.queue)
        ORDER BY tenant_id, queue, due_at LIMIT 1) n
    WHERE f.n < @queues
)
SELECT count(*), min(due_at) FROM (
    SELECT e.due_at FROM first f CROSS JOIN LATERAL (
        SELECT due_at FROM eventhook.execution
        WHERE tenant_id = f.tenant_id AND queue = f.queue AND due_at <= @now ORDER BY due_at LIMIT @bound) e
    WHERE f.tenant_id <> ALL(` + closingTenants + `) LIMIT @bound) e`

// suspendedSQL skips from tenant to tenant in the index execution_status and counts the
// suspended executions of each.
const suspendedSQL = `
WITH RECURSIVE first AS (
    (SELECT tenant_id, 1 AS n FROM eventhook.execution
     WHERE status IN ('running', 'failed', 'dead', 'suspended', 'cancelled') AND input_size >= 0
     ORDER BY tenant_id, status, id LIMIT 1)
    UNION ALL
    SELECT n.tenant_id, f.n + 1 FROM first f CROSS JOIN LATERAL (
        SELECT tenant_id FROM eventhook.execution
        WHERE status IN ('running', 'failed', 'dead', 'suspended', 'cancelled') AND input_size >= 0 AND tenant_id > f.tenant_id
        ORDER BY tenant_id, status, id LIMIT 1) n
    WHERE f.n < @queues
)
SELECT count(*) FROM (
    SELECT FROM first f CROSS JOIN LATERAL (
        SELECT FROM eventhook.execution
        WHERE tenant_id = f.tenant_id AND status = 'suspended'
          AND status IN ('running', 'failed', 'dead', 'suspended', 'cancelled') AND input_size >= 0 LIMIT @bound) e
    WHERE f.tenant_id <> ALL(` + closingTenants + `) LIMIT @bound) e`

// ExecutionQueue returns the state of the queues of executions of all tenants.
func (db *DB) ExecutionQueue(ctx context.Context) (eventhook.QueueState, error) {
	state, err := db.queueState(ctx, executionQueueSQL, pgx.StrictNamedArgs{"queues": maxCountedQueues})
	if err != nil {
		return state, err
	}
	var suspended int
	err = db.lists.QueryRow(ctx, suspendedSQL, pgx.StrictNamedArgs{"queues": maxCountedQueues, "bound": eventhook.MaxQueueDepth}).Scan(&suspended)
	state.Parked = map[eventhook.ParkReason]int{eventhook.ParkedSuspended: suspended}
	return state, translate("count suspended executions", err)
}

// queueState runs a statement that returns the number of due rows and the time of the oldest.
// It adds the parameters now and bound to args.
func (db *DB) queueState(ctx context.Context, sql string, args pgx.StrictNamedArgs) (state eventhook.QueueState, err error) {
	now, oldest := db.now(), (*time.Time)(nil)
	args["now"], args["bound"] = now, eventhook.MaxQueueDepth
	if err := db.lists.QueryRow(ctx, sql, args).Scan(&state.Depth, &oldest); err != nil {
		return state, translate("read a queue", err)
	}
	if oldest != nil {
		state.Age = max(0, now.Sub(*oldest))
	}
	return state, nil
}

// Destinations of one statement, and statements of one call: further destinations with open
// deliveries are not counted.
const (
	destinationsPerCount = 1000
	maxDestinationPages  = 10
)

// deliveryQueueSQL skips through delivery_due from destination to destination, from @after on,
// and reads the first row of each. It returns a row for each reason for which deliveries wait
// (” means that they should be sent now) with their number and the earliest time since when
// they do. The last row, with the reason next, has the last destination of a full page.
//
// Deliveries that should be sent now count from their restart and from the end of the
// subscription's last outage: recovered deliveries are due at the time of their events, and
// held ones became due during the outage. Parked deliveries count whenever they are due.
// Destinations that were deleted, and tenants that were closed, do not count.
const deliveryQueueSQL = `
WITH RECURSIVE first AS (
    (SELECT destination_id, route_id, target_index, tenant_id, due_at, restarted_at, 1 AS n FROM eventhook.delivery
     WHERE due_at IS NOT NULL AND destination_id > @after
     ORDER BY destination_id, due_at LIMIT 1)
    UNION ALL
    SELECT d.destination_id, d.route_id, d.target_index, d.tenant_id, d.due_at, d.restarted_at, f.n + 1 FROM first f CROSS JOIN LATERAL (
        SELECT destination_id, route_id, target_index, tenant_id, due_at, restarted_at FROM eventhook.delivery
        WHERE due_at IS NOT NULL AND destination_id > f.destination_id
        ORDER BY destination_id, due_at LIMIT 1) d
    WHERE f.n < @page
), destination AS MATERIALIZED (
    SELECT f.destination_id, greatest(f.due_at, f.restarted_at, h.outage_ended_at) AS since,
        CASE WHEN r.is_enabled = false OR s.status = 'paused' THEN 'paused'
            WHEN s.status = 'disabled' THEN 'held'
            WHEN jsonb_array_length(coalesce(s.settings, r.targets->(f.target_index::int))->'target_labels') > 0 THEN 'agent'
            WHEN h.circuit_opened_at IS NOT NULL OR f.destination_id = ANY(@open) THEN 'breaker'
            WHEN f.destination_id = ANY(@limited) THEN 'limit'
            ELSE '' END AS reason
    FROM first f
    LEFT JOIN eventhook.subscription s ON s.id = f.destination_id
    LEFT JOIN eventhook.subscription_health h ON h.subscription_id = f.destination_id
    LEFT JOIN eventhook.route r ON r.id = f.route_id
    WHERE (s.id IS NOT NULL OR r.id IS NOT NULL) AND (s.disabled_by = 'tenant') IS NOT TRUE AND f.tenant_id <> ALL(` + closingTenants + `)
)
SELECT c.reason, NULL::uuid, c.since, (
    SELECT count(*) FROM (
        SELECT FROM destination x CROSS JOIN LATERAL (
            SELECT FROM eventhook.delivery d
            WHERE d.destination_id = x.destination_id AND d.due_at IS NOT NULL AND (d.due_at <= @now OR x.reason <> '') LIMIT @bound) d
        WHERE x.reason = c.reason LIMIT @bound) n)
FROM (SELECT reason, min(since) FILTER (WHERE since <= @now) AS since FROM destination GROUP BY reason) c
UNION ALL
SELECT 'next', destination_id, NULL, 0 FROM first WHERE n = @page`

// DeliveryQueue returns the state of the queue of deliveries. blocked are the destinations to
// which this instance cannot send more; their deliveries are parked.
func (db *DB) DeliveryQueue(ctx context.Context, blocked eventhook.BlockedDestinations) (eventhook.QueueState, error) {
	state := eventhook.QueueState{Parked: map[eventhook.ParkReason]int{}}
	var after *eventhook.DestinationID
	for page := 0; page < maxDestinationPages && (page == 0 || after != nil); page++ {
		var err error
		if after, err = db.addDeliveryQueue(ctx, &state, after, blocked); err != nil {
			return state, translate("read the queue of deliveries", err)
		}
	}
	state.Depth = min(state.Depth, eventhook.MaxQueueDepth)
	for reason, n := range state.Parked {
		state.Parked[reason] = min(n, eventhook.MaxQueueDepth)
	}
	return state, nil
}

// addDeliveryQueue adds the deliveries of one page of destinations to state. It returns the last
// destination of the page, nil if there are no more.
func (db *DB) addDeliveryQueue(ctx context.Context, state *eventhook.QueueState, after *eventhook.DestinationID,
	blocked eventhook.BlockedDestinations) (next *eventhook.DestinationID, err error) {
	var from [16]byte
	if after != nil {
		from = *after
	}
	now := db.now()
	rows, err := db.lists.Query(ctx, deliveryQueueSQL, pgx.StrictNamedArgs{"after": from, "now": now, "page": destinationsPerCount,
		"bound": eventhook.MaxQueueDepth, "open": uuids(blocked.Open), "limited": uuids(blocked.Limited)})
	if err != nil {
		return nil, err
	}
	var reason string
	var last *[16]byte
	var since *time.Time
	var count int
	_, err = pgx.ForEachRow(rows, []any{&reason, &last, &since, &count}, func() error {
		switch reason {
		case "next":
			next = (*eventhook.DestinationID)(last)
		case "":
			state.Depth += count
			if since != nil {
				state.Age = max(state.Age, now.Sub(*since))
			}
		default:
			state.Parked[eventhook.ParkReason(reason)] += count
		}
		return nil
	})
	return next, err
}
