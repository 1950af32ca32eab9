package pg

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/eventhook/eventhook"
)

// Bounds of the queues of a tenant. They are smaller than those of the metrics, because each reader
// of an overview reads them.
const (
	maxTenantQueues = 100    // queues of executions
	maxTenantWork   = 10_000 // executions of a queue, deliveries of a destination, due events of all tenants
)

// workQueuesSQL skips from queue to queue of a tenant in the index execution_due, and reads the
// first open executions of each. Running ones are found by the index execution_status.
const workQueuesSQL = `
WITH RECURSIVE first AS (
    (SELECT queue, 1 AS n FROM eventhook.execution WHERE tenant_id = @tenant AND due_at IS NOT NULL ORDER BY queue, due_at LIMIT 1)
    UNION ALL
    SELECT x.queue, f.n + 1 FROM first f CROSS JOIN LATERAL (
        SELECT queue FROM eventhook.execution WHERE tenant_id = @tenant AND due_at IS NOT NULL AND queue > f.queue
        ORDER BY queue, due_at LIMIT 1) x
    WHERE f.n < @queues
), running AS MATERIALIZED (
    SELECT queue, count(*) AS n FROM (
        SELECT queue FROM eventhook.execution
        WHERE tenant_id = @tenant AND status = 'running' AND status IN ('running', 'failed', 'dead', 'suspended', 'cancelled') AND input_size >= 0
        LIMIT @bound) e
    GROUP BY queue
)
SELECT f.queue, count(e.due_at), count(e.due_at) FILTER (WHERE e.due_at <= @now), coalesce(r.n, 0), min(e.due_at) FILTER (WHERE e.due_at <= @now)
FROM first f LEFT JOIN LATERAL (
    SELECT due_at FROM (
        SELECT due_at, status FROM eventhook.execution WHERE tenant_id = @tenant AND queue = f.queue AND due_at IS NOT NULL
        ORDER BY due_at LIMIT @bound) o
    WHERE o.status <> 'running' OR o.due_at <= @now) e ON true
LEFT JOIN running r ON r.queue = f.queue
GROUP BY f.queue, r.n ORDER BY f.queue`

// WorkQueues returns up to 100 queues of a tenant that have open executions, by name. An execution
// whose lease has expired counts as due, and also as running.
func (db *DB) WorkQueues(ctx context.Context, tenant eventhook.TenantID) ([]eventhook.WorkQueue, error) {
	rows, err := db.lists.Query(ctx, workQueuesSQL, pgx.StrictNamedArgs{"tenant": [16]byte(tenant), "now": db.now(),
		"queues": maxTenantQueues, "bound": maxTenantWork})
	if err != nil {
		return nil, translate("read the queues of a tenant", err)
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (q eventhook.WorkQueue, err error) {
		return q, row.Scan(&q.Queue, &q.Waiting, &q.Due, &q.Running, &q.OldestDueAt)
	})
	return list, translate("read the queues of a tenant", err)
}

// tenantEventsSQL counts the events of a tenant among the oldest due events. Index event_due.
const tenantEventsSQL = `
SELECT count(*), min(due_at) FROM (
    SELECT tenant_id, due_at FROM eventhook.event WHERE due_at <= @now ORDER BY due_at LIMIT @bound) e
WHERE tenant_id = @tenant`

// sendingTargetsSQL lists the targets of a tenant's routes whose effects are deliveries. Indexes
// source_tenant and route_source.
var sendingTargetsSQL = `
SELECT r.id, x.n - 1 FROM eventhook.source s JOIN eventhook.route r ON r.source_id = s.id
CROSS JOIN LATERAL jsonb_array_elements(r.targets) WITH ORDINALITY AS x (target, n)
WHERE s.tenant_id = $1 AND ` + isDestination(`x.target`) + ` LIMIT $2`

// tenantDeliveriesSQL counts the open deliveries of a tenant to its subscriptions and to the
// destinations @targets of its routes. The oldest is among those that should be sent now. Indexes
// subscription_tenant and delivery_due.
const tenantDeliveriesSQL = `
WITH destination AS MATERIALIZED (
    SELECT s.id, s.status = 'active' AND h.failing_since IS NULL AS is_sent, h.outage_ended_at AS since
    FROM eventhook.subscription s LEFT JOIN eventhook.subscription_health h ON h.subscription_id = s.id
    WHERE s.tenant_id = @tenant
    UNION ALL
    SELECT id, true, NULL FROM unnest(@targets::uuid[]) AS t (id)
)
SELECT count(*), min(at) FROM (
    SELECT CASE WHEN c.is_sent AND d.due_at <= @now THEN greatest(d.due_at, d.restarted_at, c.since) END AS at
    FROM destination c CROSS JOIN LATERAL (
        SELECT due_at, restarted_at FROM eventhook.delivery d
        WHERE d.destination_id = c.id AND d.due_at IS NOT NULL ORDER BY due_at LIMIT @bound) d
    LIMIT @total) e`

func (r *overviewReader) tenantQueues(ctx context.Context) error {
	queues, err := r.db.WorkQueues(ctx, *r.tenant)
	if err != nil {
		return err
	}
	for _, q := range queues {
		w := &r.x.Queues.Executions
		w.Waiting = min(w.Waiting+q.Waiting, eventhook.MaxQueueDepth)
		w.OldestAge = max(w.OldestAge, r.age(q.OldestDueAt))
	}
	args := pgx.StrictNamedArgs{"tenant": r.tenantID(), "now": r.now, "bound": maxTenantWork}
	if r.x.Queues.Events, err = r.queue(ctx, tenantEventsSQL, args); err != nil {
		return err
	}
	targets, err := r.sendingTargets(ctx)
	if err != nil {
		return err
	}
	args["targets"], args["total"] = targets, eventhook.MaxQueueDepth
	r.x.Queues.Deliveries, err = r.queue(ctx, tenantDeliveriesSQL, args)
	return err
}

// sendingTargets returns up to 1000 targets whose effects are deliveries.
func (r *overviewReader) sendingTargets(ctx context.Context) ([][16]byte, error) {
	rows, err := r.db.lists.Query(ctx, sendingTargetsSQL, r.tenantID(), destinationsPerCount)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) ([16]byte, error) {
		d := eventhook.Destination{TenantID: *r.tenant}
		err := row.Scan((*[16]byte)(&d.RouteID), &d.TargetIndex)
		return d.ID(), err
	})
}

// queue runs a statement that returns a number and the time of the oldest work.
func (r *overviewReader) queue(ctx context.Context, sql string, args pgx.StrictNamedArgs) (w eventhook.WaitingWork, err error) {
	var oldest *time.Time
	err = r.db.lists.QueryRow(ctx, sql, args).Scan(&w.Waiting, &oldest)
	w.OldestAge = r.age(oldest)
	return w, err
}

func (r *overviewReader) age(since *time.Time) time.Duration {
	if since == nil {
		return 0
	}
	return max(0, r.now.Sub(*since))
}

// allQueues reads the queues of all tenants, as the metrics have them.
func (r *overviewReader) allQueues(ctx context.Context) error {
	events, err := r.db.EventQueue(ctx)
	if err != nil {
		return err
	}
	executions, err := r.db.ExecutionQueue(ctx)
	if err != nil {
		return err
	}
	deliveries, err := r.db.DeliveryQueue(ctx, eventhook.BlockedDestinations{})
	if err != nil {
		return err
	}
	waiting := deliveries.Depth
	for _, n := range deliveries.Parked {
		waiting += n
	}
	r.x.Queues = eventhook.OverviewQueues{
		Events:     eventhook.WaitingWork{Waiting: events.Depth, OldestAge: events.Age},
		Executions: eventhook.WaitingWork{Waiting: executions.Depth, OldestAge: executions.Age},
		Deliveries: eventhook.WaitingWork{Waiting: min(waiting, eventhook.MaxQueueDepth), OldestAge: deliveries.Age},
	}
	return nil
}
