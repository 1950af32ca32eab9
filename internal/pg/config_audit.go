package pg

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/eventhook/eventhook"
)

// insertAuditSQL writes the audit entries of one transaction.
const insertAuditSQL = `
INSERT INTO eventhook.audit_log (id, tenant_id, actor_type, actor_id, actor_name, via, source_ip, request_id,
    action, resource_type, resource_id, resource_name, changes, correlation_id, trace_id)
SELECT u.id, u.tenant_id, @actor_type, @actor_id, @actor_name, @via, @source_ip, @request_id, u.action, u.resource_type, u.resource_id, u.resource_name, u.changes::json, u.correlation_id, u.trace_id
FROM unnest(@ids::uuid[], @tenants::uuid[], @actions::text[], @types::text[], @resources::uuid[], @names::text[], @changes::text[], @correlations::text[], @traces::text[])
    AS u (id, tenant_id, action, resource_type, resource_id, resource_name, changes, correlation_id, trace_id)`

// insertAudit writes the entries of one actor, with new ids in their order.
func (db *DB) insertAudit(ctx context.Context, tx pgx.Tx, by eventhook.Actor, entries []eventhook.AuditEntry) error {
	if len(entries) == 0 {
		return nil
	}
	var tenants [][16]byte
	var resources []*[16]byte
	var actions, types, names, changes []string
	var correlations, traces []*string
	ids := uuids(newIDsInOrder[eventhook.AuditEntry](db.now(), len(entries)))
	for _, e := range entries {
		raw, err := json.Marshal(e.Changes)
		if err != nil {
			return fmt.Errorf("audit: %w", err)
		}
		if e.Changes == nil {
			raw = []byte("[]")
		}
		var resource *[16]byte
		if id, err := eventhook.ParseID[eventhook.AuditEntry](e.ResourceID); err == nil {
			resource = (*[16]byte)(&id)
		}
		tenants, resources = append(tenants, e.TenantID), append(resources, resource)
		actions, types, names = append(actions, e.Action), append(types, e.ResourceType), append(names, e.ResourceName)
		changes, correlations = append(changes, eventhook.SanitizeText(string(raw))), append(correlations, textArg(e.CorrelationID))
		traces = append(traces, textArg(e.TraceID))
	}
	_, err := tx.Exec(ctx, insertAuditSQL, pgx.StrictNamedArgs{"actor_type": string(by.Type), "actor_id": uuidArg(by.KeyID),
		"actor_name": eventhook.SanitizeText(by.Name), "via": textArg(by.Via), "source_ip": textArg(by.SourceIP), "request_id": textArg(by.RequestID),
		"ids": ids, "tenants": tenants, "actions": actions, "types": types, "resources": resources, "names": names,
		"changes": changes, "correlations": correlations, "traces": traces})
	return err
}

// listAuditSQL reads one index downwards from $1. The conditions that auditQuery puts
// between the two parts choose the index.
const (
	listAuditSQL = `
SELECT a.id, a.tenant_id, coalesce(t.slug, ''), a.actor_type, a.actor_id, a.actor_name, coalesce(a.via, ''), coalesce(a.source_ip, ''), coalesce(a.request_id, ''),
    a.action, a.resource_type, a.resource_id, a.resource_name, a.changes, coalesce(a.correlation_id, ''), coalesce(a.trace_id, '')
FROM eventhook.audit_log a LEFT JOIN eventhook.tenant t ON t.id = a.tenant_id
WHERE a.id < $1`
	newestAuditSQL = ` ORDER BY a.id DESC LIMIT $2`
)

// auditQuery returns the statement for a filter and its arguments. It uses the primary key, or
// audit_log_tenant, audit_log_action or audit_log_tenant_action. The entries of a trace, a
// request or a correlation id are few; audit_log_trace, audit_log_request or
// audit_log_correlation has them.
func auditQuery(f eventhook.AuditFilter) (sql string, args []any) {
	sql, args = listAuditSQL, []any{cursorArg(f.Before), f.Limit}
	add := func(column string, value any) {
		args = append(args, value)
		sql += ` AND a.` + column + ` = $` + strconv.Itoa(len(args))
	}
	if !f.Tenant.IsZero() {
		add("tenant_id", [16]byte(f.Tenant))
	}
	for _, c := range []struct{ column, value string }{{"action", f.Action}, {"trace_id", f.TraceID}, {"request_id", f.RequestID},
		{"correlation_id", f.CorrelationID}} {
		if c.value != "" {
			add(c.column, c.value)
		}
	}
	return sql + newestAuditSQL, args
}

// AuditEntries lists audit entries, newest first. Each combination of filters has an index of
// its own.
func (db *DB) AuditEntries(ctx context.Context, f eventhook.AuditFilter) (list []eventhook.AuditEntry, err error) {
	sql, args := auditQuery(f)
	err = db.list(ctx, func(ctx context.Context, lists *listPool) error {
		rows, err := lists.Query(ctx, sql, args...)
		if err != nil {
			return err
		}
		list, err = pgx.CollectRows(rows, scanAudit)
		return err
	})
	return list, translate("list audit entries", err)
}

func scanAudit(row pgx.CollectableRow) (e eventhook.AuditEntry, err error) {
	var actor string
	var tenant, key, resource *[16]byte
	var changes []byte
	err = row.Scan((*[16]byte)(&e.ID), &tenant, &e.TenantSlug, &actor, &key, &e.Actor.Name, &e.Actor.Via, &e.Actor.SourceIP, &e.Actor.RequestID,
		&e.Action, &e.ResourceType, &resource, &e.ResourceName, &changes, &e.CorrelationID, &e.TraceID)
	if err != nil {
		return e, err
	}
	e.Actor.Type = eventhook.ActorType(actor)
	if tenant != nil {
		e.TenantID = *tenant
	}
	if key != nil {
		e.Actor.KeyID = *key
	}
	if resource != nil {
		e.ResourceID = eventhook.AuditID(*resource).String()
	}
	return e, json.Unmarshal(changes, &e.Changes)
}

// sweepAuditSQL deletes the oldest entries before an id; the id encodes the time. It skips
// rows that another instance is deleting. Primary key.
const sweepAuditSQL = `
DELETE FROM eventhook.audit_log WHERE id = ANY(ARRAY(
    SELECT id FROM eventhook.audit_log WHERE id < $1 ORDER BY id LIMIT $2 FOR UPDATE SKIP LOCKED))`

// SweepAudit deletes up to a thousand entries that are older than keep, the oldest first, and
// returns their number. If keep is 0, it deletes none.
func (db *DB) SweepAudit(ctx context.Context, keep time.Duration) (int, error) {
	if keep <= 0 {
		return 0, nil
	}
	const limit = 1000
	before := eventhook.FirstID[eventhook.AuditEntry](db.now().Add(-keep))
	tag, err := db.work.Exec(ctx, sweepAuditSQL, [16]byte(before), limit)
	return int(tag.RowsAffected()), translate("sweep the audit log", err)
}
