package pg

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/eventhook/eventhook"
)

// The steps of the closing read the rows of the tenant page by page, in the order of their
// ids, and end the open ones. @after is the last id of the previous page. Each statement
// returns the last id of the page and the ended rows. Lock order: rows by id.

// endEventsSQL ends events that wait for processing, a retry, or deliveries to targets of routes.
// Primary key.
const endEventsSQL = `
WITH page AS MATERIALIZED (
    SELECT id, status FROM eventhook.event WHERE tenant_id = @tenant AND id > @after ORDER BY id LIMIT @page
), open AS MATERIALIZED (
    SELECT e.id FROM eventhook.event e WHERE e.tenant_id = @tenant AND e.id = ANY(ARRAY(SELECT id FROM page WHERE status IN ('pending', 'processing', 'failed')))
        AND e.status IN ('pending', 'processing', 'failed') ORDER BY e.id FOR UPDATE
), ended AS (
    UPDATE eventhook.event e SET status = 'dead', due_at = NULL, processed_at = @now, last_error = @error, lease_token = e.lease_token + 1
    FROM open WHERE e.tenant_id = @tenant AND e.id = open.id RETURNING e.id
)` + endedSQL + `, NULL::uuid[] FROM ended) r`

// endExecutionsSQL cancels executions. Index execution_tenant.
const endExecutionsSQL = `
WITH page AS MATERIALIZED (
    SELECT id, status FROM eventhook.execution WHERE tenant_id = @tenant AND id > @after ORDER BY id LIMIT @page
), open AS MATERIALIZED (
    SELECT x.id FROM eventhook.execution x WHERE x.id = ANY(ARRAY(SELECT id FROM page WHERE status IN ('pending', 'running', 'failed', 'suspended')))
        AND x.status IN ('pending', 'running', 'failed', 'suspended') ORDER BY x.id FOR UPDATE
), ended AS (
    UPDATE eventhook.execution x SET status = 'cancelled', due_at = NULL, completed_at = @now, error = @error, lease_token = x.lease_token + 1
    FROM open WHERE x.id = open.id RETURNING x.id, x.type
)` + endedSQL + ` FILTER (WHERE type = 'task'), array_agg(id) FILTER (WHERE type = 'workflow') FROM ended) r`

// endPromisesSQL rejects promises. Their workflows are cancelled already. Index promise_tenant.
const endPromisesSQL = `
WITH page AS MATERIALIZED (
    SELECT id, status FROM eventhook.promise WHERE tenant_id = @tenant AND id > @after ORDER BY id LIMIT @page
), open AS MATERIALIZED (
    SELECT p.id FROM eventhook.promise p WHERE p.id = ANY(ARRAY(SELECT id FROM page WHERE status = 'pending'))
        AND p.status = 'pending' ORDER BY p.id FOR UPDATE
), ended AS (
    UPDATE eventhook.promise p SET status = 'rejected', due_at = NULL, settled_at = @now, error = @error
    FROM open WHERE p.id = open.id RETURNING p.id
)` + endedSQL + `, NULL::uuid[] FROM ended) r`

// openOfTenantSQL reads the next page, and locks its open deliveries, except deliveries to the
// operator. Primary key.
const openOfTenantSQL = `
WITH page AS MATERIALIZED (
    SELECT id, due_at FROM eventhook.delivery WHERE tenant_id = @tenant AND id > @after ORDER BY id LIMIT @page
), open AS MATERIALIZED (
    SELECT d.id, d.order_key FROM eventhook.delivery d WHERE d.tenant_id = @tenant AND d.id = ANY(ARRAY(SELECT id FROM page WHERE due_at IS NOT NULL))
        AND d.due_at IS NOT NULL AND d.destination_id <> ALL(` + operatorSubscriptions + `) ORDER BY d.id FOR UPDATE
)`

// lockOpenSQL locks open deliveries and then the order of their keys, as their settlement does.
const lockOpenSQL = openOfTenantSQL + `
SELECT eventhook.lock_order(slot) FROM (SELECT DISTINCT eventhook.order_slot(order_key) AS slot FROM open WHERE order_key IS NOT NULL ORDER BY slot) s`

// endDeliveriesSQL ends open deliveries, which lockOpenSQL has locked. An attempt that is running
// then loses its lease.
const endDeliveriesSQL = openOfTenantSQL + `, ended AS (
    UPDATE eventhook.delivery d SET status = 'dead', due_at = NULL, completed_at = @now, last_error = @error, lease_token = d.lease_token + 1
    FROM open WHERE d.tenant_id = @tenant AND d.id = open.id RETURNING d.id
)` + endedSQL + `, NULL::uuid[] FROM ended) r`

const endedSQL = `
SELECT (SELECT count(*) FROM page), (SELECT id FROM page ORDER BY id DESC LIMIT 1), r.* FROM (SELECT array_agg(id)`

// ending describes a step of the closing: its statement, and the system events that report
// the ended rows of the first and of the second list; "": no event.
type ending struct {
	sql, kind     string // kind: of eventhook.TenantCleanup.Ended
	first, second string
	resource      string
}

func endEvents(ctx context.Context, c *cleaner, m *mutation) (map[string]int64, bool, error) {
	return c.end(ctx, m, ending{sql: endEventsSQL, kind: eventhook.EndedEvents})
}

func endExecutions(ctx context.Context, c *cleaner, m *mutation) (map[string]int64, bool, error) {
	return c.end(ctx, m, ending{endExecutionsSQL, eventhook.EndedExecutions, "task.cancelled_via_tenant_cascade",
		"workflow.cancelled_via_tenant_cascade", "execution"})
}

func endPromises(ctx context.Context, c *cleaner, m *mutation) (map[string]int64, bool, error) {
	return c.end(ctx, m, ending{sql: endPromisesSQL, kind: eventhook.EndedPromises, first: "promise.rejected_via_tenant_cascade",
		resource: "promise"})
}

func endDeliveries(ctx context.Context, c *cleaner, m *mutation) (map[string]int64, bool, error) {
	page := pgx.StrictNamedArgs{"tenant": [16]byte(c.tenant.ID), "after": [16]byte(c.position), "page": cleanupPage}
	if _, err := m.tx.Exec(ctx, lockOpenSQL, page); err != nil {
		return nil, false, fmt.Errorf("lock deliveries: %w", err)
	}
	return c.end(ctx, m, ending{sql: endDeliveriesSQL, kind: eventhook.EndedDeliveries, first: "delivery.dead_via_tenant_cascade",
		resource: "delivery"})
}

// end ends the open rows of one page. It records one audit entry, with one system event, for
// the ended rows of a list.
func (c *cleaner) end(ctx context.Context, m *mutation, e ending) (map[string]int64, bool, error) {
	var read int
	var last *[16]byte
	var first, second [][16]byte
	err := m.tx.QueryRow(ctx, e.sql, pgx.StrictNamedArgs{"tenant": [16]byte(c.tenant.ID), "after": [16]byte(c.position),
		"page": cleanupPage,
		"now":  c.db.now(), "error": eventhook.TenantClosedError}).Scan(&read, &last, &first, &second)
	if err != nil {
		return nil, false, fmt.Errorf("end %s: %w", e.kind, err)
	}
	if last != nil {
		c.position = *last
	}
	for action, rows := range map[string][][16]byte{e.first: first, e.second: second} {
		if action == "" || len(rows) == 0 {
			continue
		}
		ids := make([]eventhook.ID[cleaner], len(rows))
		for i, id := range rows {
			ids[i] = id
		}
		if err := recordBulk(m, action, e.resource, e.kind, ids); err != nil {
			return nil, false, err
		}
	}
	return map[string]int64{e.kind: int64(len(first) + len(second))}, read == cleanupPage, nil
}
