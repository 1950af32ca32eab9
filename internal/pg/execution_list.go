package pg

import (
	"context"

	"github.com/eventhook/eventhook"
)

// The parameters of lists of executions: $1 the tenant, $2 the id after the
// last, $3 the limit, $4 type, $5 status, $6 kind and $7 queue, "" for any.

// executionFilter narrows a list to what was asked for.
const executionFilter = `
    AND e.tenant_id = $1 AND e.id < $2 AND ($4 = '' OR e.type = $4) AND ($5 = '' OR e.status = $5) AND ($6 = '' OR e.kind = $6) AND ($7 = '' OR e.queue = $7)`

const newestExecutionsFirst = ` ORDER BY e.id DESC LIMIT $3`

// newestExecutionsSQL goes down the ids: for all, and for what most are. Index
// execution_tenant.
const newestExecutionsSQL = `
SELECT ` + executionColumns + ` FROM eventhook.execution e WHERE true` + executionFilter + newestExecutionsFirst

// executionsByStatusSQL lists a state that few are in. Index execution_status.
const executionsByStatusSQL = `
SELECT ` + executionColumns + ` FROM eventhook.execution e
WHERE e.tenant_id = $1 AND e.status = $5 AND e.status >= $5 AND e.status <= $5
    AND e.status IN ('running', 'failed', 'dead', 'suspended', 'cancelled') AND e.input_size >= 0` + executionFilter + `
ORDER BY e.status DESC, e.id DESC LIMIT $3`

// executionsByKindSQL lists a kind, a queue, a type, or what is pending. In
// execution_list, for what is not owed, and in execution_kind_due, for what is,
// it hops from one kind and queue to the next, of which there are as many as
// routes tell apart, and looks into those that are wanted. Of what is owed it
// must read all to know the newest; if that is more than 10 000, it goes down
// the ids instead.
const executionsByKindSQL = `
WITH RECURSIVE owed_sort AS (
    (SELECT queue, kind FROM eventhook.execution WHERE tenant_id = $1 AND due_at IS NOT NULL AND input_size >= 0
     ORDER BY queue, kind LIMIT 1)
    UNION ALL
    SELECT n.* FROM owed_sort s CROSS JOIN LATERAL (
        SELECT queue, kind FROM eventhook.execution
        WHERE tenant_id = $1 AND due_at IS NOT NULL AND input_size >= 0 AND (queue, kind) > (s.queue, s.kind)
        ORDER BY queue, kind LIMIT 1) n
), owed AS MATERIALIZED (
    SELECT n.id FROM owed_sort s CROSS JOIN LATERAL (
        SELECT id FROM eventhook.execution e
        WHERE tenant_id = $1 AND queue = s.queue AND kind = s.kind AND due_at IS NOT NULL AND input_size >= 0
          AND (id < $2) IS TRUE AND ($4 = '' OR type = $4) AND ($5 = '' OR status = $5)) n
    WHERE $5 <> 'completed' AND ($6 = '' OR s.kind = $6) AND ($7 = '' OR s.queue = $7)
    LIMIT 10001
), settled_sort AS (
    (SELECT kind, queue, type FROM eventhook.execution WHERE tenant_id = $1 AND due_at IS NULL AND input_size >= 0
     ORDER BY kind, queue, type LIMIT 1)
    UNION ALL
    SELECT n.* FROM settled_sort s CROSS JOIN LATERAL (
        SELECT kind, queue, type FROM eventhook.execution
        WHERE tenant_id = $1 AND due_at IS NULL AND input_size >= 0 AND (kind, queue, type) > (s.kind, s.queue, s.type)
        ORDER BY kind, queue, type LIMIT 1) n
), found AS MATERIALIZED (
    SELECT id FROM owed WHERE (SELECT count(*) FROM owed) <= 10000
    UNION ALL
    SELECT n.id FROM settled_sort s CROSS JOIN LATERAL (
        SELECT id FROM eventhook.execution
        WHERE tenant_id = $1 AND kind = s.kind AND queue = s.queue AND type = s.type AND id < $2 AND ($5 = '' OR status = $5)
          AND due_at IS NULL AND input_size >= 0
        ORDER BY kind DESC, queue DESC, type DESC, id DESC LIMIT $3) n
    WHERE (SELECT count(*) FROM owed) <= 10000 AND $5 <> 'pending'
      AND ($4 = '' OR s.type = $4) AND ($6 = '' OR s.kind = $6) AND ($7 = '' OR s.queue = $7)
    UNION ALL
    (SELECT e.id FROM eventhook.execution e WHERE (SELECT count(*) FROM owed) > 10000` + executionFilter + newestExecutionsFirst + `)
)
SELECT ` + executionColumns + ` FROM (SELECT id FROM found ORDER BY id DESC LIMIT $3) f JOIN eventhook.execution e ON e.id = f.id` + newestExecutionsFirst

// executionListSQL is the statement that reads least for a filter.
func executionListSQL(f eventhook.ExecutionFilter) string {
	switch f.Status {
	case eventhook.ExecutionRunning, eventhook.ExecutionFailed, eventhook.ExecutionDead, eventhook.ExecutionSuspended, eventhook.ExecutionCancelled:
		return executionsByStatusSQL
	case eventhook.ExecutionPending:
		return executionsByKindSQL
	case eventhook.ExecutionCompleted: // they are the most
	}
	if f.Type != "" || f.Kind != "" || f.Queue != "" {
		return executionsByKindSQL
	}
	return newestExecutionsSQL
}

// Executions lists a tenant's executions, newest first.
func (db *DB) Executions(ctx context.Context, tenant eventhook.TenantID, f eventhook.ExecutionFilter) ([]eventhook.Execution, error) {
	rows, err := db.lists.Query(ctx, executionListSQL(f),
		[16]byte(tenant), cursorArg(f.Before), f.Limit, string(f.Type), string(f.Status), f.Kind, f.Queue)
	if err != nil {
		return nil, translate("list executions", err)
	}
	list, err := collectPage(rows, oneExecution)
	return list, translate("list executions", err)
}
