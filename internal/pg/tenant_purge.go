package pg

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/eventhook/eventhook"
)

// PurgeTenant requests the deletion of a closed tenant's data, which CleanUpTenants does in
// the background. The tenant itself stays, so that its slug is never used again, and so do its
// audit entries about the tenant. The error is KindConflict if the tenant is not closed. A
// second request has no effect.
func (db *DB) PurgeTenant(ctx context.Context, by eventhook.Actor, slug string) (t eventhook.Tenant, err error) {
	m := &mutation{db: db, by: by}
	err = m.run(ctx, "purge tenant", func() error {
		if m.tenant, err = lockTenant(ctx, m.tx, slug); err != nil {
			return err
		}
		if m.tenant.Status != eventhook.TenantClosed {
			return &eventhook.Error{Kind: eventhook.KindConflict,
				Message: fmt.Sprintf("The tenant %q is %s; close it before its data is deleted.", slug, m.tenant.Status)}
		}
		return m.requestPurge(ctx)
	})
	return m.tenant, err
}

// requestPurgeSQL makes the tenant due, unless its closing has not ended. Primary key.
const requestPurgeSQL = `
UPDATE eventhook.tenant_cleanup SET purge_requested_at = $2, due_at = coalesce(due_at, $2)
WHERE tenant_id = $1 AND purge_requested_at IS NULL RETURNING correlation_id`

func (m *mutation) requestPurge(ctx context.Context) error {
	err := m.tx.QueryRow(ctx, requestPurgeSQL, [16]byte(m.tenant.ID), m.db.now()).Scan(&m.correlation)
	if errors.Is(err, pgx.ErrNoRows) { // a purge was requested before
		return nil
	}
	if err != nil {
		return err
	}
	m.recordChanges("tenant.purge_requested", resourceOfTenant(m.tenant),
		[]eventhook.FieldChange{{Field: "purge", From: json.RawMessage("null"), To: json.RawMessage(`"running"`)}})
	return nil
}

// purgeSteps delete the data of a closed tenant. Deliveries and events are first. Sources and
// subscriptions come after the rows that refer to them. What remains are the tenant, its
// generation, and its audit entries about the tenant, and the events of its closing, with
// their deliveries to operator subscriptions.
var purgeSteps = []cleanupStep{
	purgeDeliveries, purgeEvents,
	purgeRows("idempotency_key", rowsOfTenant), purgeRows("execution", rowsOfTenant), purgeRows("promise", rowsOfTenant),
	purgeRows("replay", rowsOfTenant),
	purgeRows("subscription_usage", `subscription_id IN (SELECT id FROM eventhook.subscription WHERE tenant_id = $1)`),
	purgeRows("source_usage", rowsOfSources), purgeRows("rejection", rowsOfSources),
	purgeRows("subscription", rowsOfTenant), purgeRows("route", rowsOfTenant), purgeRows("source", rowsOfTenant),
	purgeRows("event_type", rowsOfTenant), purgeRows("tenant_usage", rowsOfTenant), purgeRows("traffic", rowsOfTenant), purgeRows("api_key", rowsOfTenant), purgeRows("agent", rowsOfTenant),
	purgeRows("audit_log", rowsOfTenant+` AND resource_type <> 'tenant'`), forgetTenant,
}

const (
	rowsOfTenant  = `tenant_id = $1`
	rowsOfSources = `source_id IN (SELECT id FROM eventhook.source WHERE tenant_id = $1)`
)

// purgeRows returns a step that deletes the rows of a table that satisfy a condition.
func purgeRows(table, where string) cleanupStep {
	sql := fmt.Sprintf(`DELETE FROM eventhook.%[1]s WHERE ctid = ANY(ARRAY(SELECT ctid FROM eventhook.%[1]s WHERE %[2]s LIMIT $2))`,
		table, where)
	return func(ctx context.Context, c *cleaner, m *mutation) (map[string]int64, bool, error) {
		tag, err := m.tx.Exec(ctx, sql, [16]byte(c.tenant.ID), cleanupPage)
		if err != nil {
			return nil, false, fmt.Errorf("delete from %s: %w", table, err)
		}
		return map[string]int64{table: tag.RowsAffected()}, tag.RowsAffected() == cleanupPage, nil
	}
}

// The pages of deliveries and events are read in the order of their ids. Primary keys.

const purgeDeliveriesSQL = `
WITH page AS MATERIALIZED (
    SELECT id, event_type, route_id, has_body FROM eventhook.delivery WHERE tenant_id = @tenant AND id > @after ORDER BY id LIMIT @page
), bodies AS (
    DELETE FROM eventhook.event_payload WHERE event_id = ANY(ARRAY(SELECT id FROM page WHERE has_body))
), deleted AS (
    DELETE FROM eventhook.delivery WHERE tenant_id = @tenant AND id = ANY(ARRAY(SELECT id FROM page WHERE route_id IS NOT NULL OR event_type <> ALL(@kept::text[]))) RETURNING 1
)
SELECT (SELECT count(*) FROM page), (SELECT id FROM page ORDER BY id DESC LIMIT 1), (SELECT count(*) FROM deleted)`

const purgeEventsSQL = `
WITH page AS MATERIALIZED (
    SELECT id, origin = 'system' AND event_type = ANY(@kept::text[]) AS is_kept FROM eventhook.event WHERE tenant_id = @tenant AND id > @after ORDER BY id LIMIT @page
), gone AS MATERIALIZED (
    SELECT array_agg(id) AS ids FROM page WHERE NOT is_kept
), payloads AS (
    DELETE FROM eventhook.event_payload WHERE event_id = ANY((SELECT ids FROM gone)::uuid[])
), actions AS (
    DELETE FROM eventhook.event_action WHERE event_id = ANY((SELECT ids FROM gone)::uuid[])
), deleted AS (
    DELETE FROM eventhook.event WHERE tenant_id = @tenant AND id = ANY((SELECT ids FROM gone)::uuid[]) RETURNING 1
)
SELECT (SELECT count(*) FROM page), (SELECT id FROM page ORDER BY id DESC LIMIT 1), (SELECT count(*) FROM deleted)`

// Deliveries to the operator may still be open, and deliveries of other tenants may wait for them
// in the order of their keys. They end before they are deleted, so that the next ones become due.
const (
	// lockPurgedSQL locks the open ordered deliveries of a page, and then their keys.
	lockPurgedSQL = `
WITH page AS MATERIALIZED (
    SELECT id FROM eventhook.delivery WHERE tenant_id = @tenant AND id > @after ORDER BY id LIMIT @page
), open AS MATERIALIZED (
    SELECT d.order_key FROM eventhook.delivery d WHERE d.tenant_id = @tenant AND d.id = ANY(ARRAY(SELECT id FROM page))
        AND (d.due_at IS NOT NULL AND d.order_key IS NOT NULL) IS TRUE ORDER BY d.id FOR UPDATE
)
SELECT eventhook.lock_order(slot) FROM (SELECT DISTINCT eventhook.order_slot(order_key) AS slot FROM open ORDER BY slot) s`

	endPurgedSQL = `
WITH page AS MATERIALIZED (
    SELECT id FROM eventhook.delivery WHERE tenant_id = @tenant AND id > @after ORDER BY id LIMIT @page
)
UPDATE eventhook.delivery d SET status = 'dead', due_at = NULL, completed_at = @now, lease_token = d.lease_token + 1
WHERE d.tenant_id = @tenant AND d.id = ANY(ARRAY(SELECT id FROM page)) AND d.event_type <> ALL(@kept::text[])
    AND (d.due_at IS NOT NULL AND d.order_key IS NOT NULL) IS TRUE`
)

func purgeDeliveries(ctx context.Context, c *cleaner, m *mutation) (map[string]int64, bool, error) {
	args := pgx.StrictNamedArgs{"tenant": [16]byte(c.tenant.ID), "after": [16]byte(c.position), "page": cleanupPage}
	keys, err := m.tx.Exec(ctx, lockPurgedSQL, args)
	if err == nil && keys.RowsAffected() > 0 {
		args["now"], args["kept"] = c.db.now(), adminEventTypes()
		_, err = m.tx.Exec(ctx, endPurgedSQL, args)
	}
	if err != nil {
		return nil, false, fmt.Errorf("end deliveries: %w", err)
	}
	return c.purgePage(ctx, m, "delivery", purgeDeliveriesSQL)
}

func purgeEvents(ctx context.Context, c *cleaner, m *mutation) (map[string]int64, bool, error) {
	return c.purgePage(ctx, m, "event", purgeEventsSQL)
}

func (c *cleaner) purgePage(ctx context.Context, m *mutation, table, sql string) (map[string]int64, bool, error) {
	var read int
	var last *[16]byte
	var deleted int64
	err := m.tx.QueryRow(ctx, sql, pgx.StrictNamedArgs{"tenant": [16]byte(c.tenant.ID), "after": [16]byte(c.position), "page": cleanupPage,
		"kept": adminEventTypes()}).Scan(&read, &last, &deleted)
	if err != nil {
		return nil, false, fmt.Errorf("delete from %s: %w", table, err)
	}
	if last != nil {
		c.position = *last
	}
	return map[string]int64{table: deleted}, read == cleanupPage, nil
}

// adminEventTypes lists the system events that only operators receive. They name resources
// and contain no data of senders.
func adminEventTypes() (names []string) {
	for _, t := range eventhook.SystemEventTypes() {
		if t.Visibility == eventhook.VisibleToAdmin {
			names = append(names, t.Name)
		}
	}
	return names
}

// forgetTenant overwrites the name of the tenant, which is data of the tenant, too.
func forgetTenant(ctx context.Context, c *cleaner, m *mutation) (map[string]int64, bool, error) {
	_, err := m.tx.Exec(ctx, `UPDATE eventhook.tenant SET name = slug, max_events_per_day = NULL, max_storage_bytes = NULL, version = version + 1, updated_at = $2
		WHERE id = $1`, [16]byte(c.tenant.ID), c.db.now())
	return nil, false, err
}
