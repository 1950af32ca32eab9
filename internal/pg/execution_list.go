package pg

import (
	"context"

	"github.com/eventhook/eventhook"
	"github.com/jackc/pgx/v5"
)

// The statements that list executions have named parameters: @tenant, @before (the id
// before which the list begins), @limit, and the filters @type, @status, @kind and
// @queue, each "" for any.

// executionFilter is the condition of all filters.
const executionFilter = `
    AND e.tenant_id = @tenant AND e.id < @before AND (@type = '' OR e.type = @type) AND (@status = '' OR e.status = @status) AND (@kind = '' OR e.kind = @kind) AND (@queue = '' OR e.queue = @queue)`

const newestExecutionsFirst = ` ORDER BY e.id DESC LIMIT @limit`

// newestExecutionsSQL reads executions in descending order of ids. It is for lists without a
// filter, or with a filter that most executions match. Index execution_tenant.
const newestExecutionsSQL = `
SELECT ` + executionColumns + ` FROM eventhook.execution e WHERE true` + executionFilter + newestExecutionsFirst

// executionsByStatusSQL lists a status that few executions have. Index execution_status.
const executionsByStatusSQL = `
SELECT ` + executionColumns + ` FROM eventhook.execution e
WHERE e.tenant_id = @tenant AND e.status = @status AND e.status >= @status AND e.status <= @status
    AND e.status IN ('running', 'failed', 'dead', 'suspended', 'cancelled') AND e.input_size >= 0` + executionFilter + `
ORDER BY e.status DESC, e.id DESC LIMIT @limit`

// executionsByKindSQL lists executions by kind, queue or type, or pending executions. It
// skips from one pair of kind and queue to the next, of which a tenant has few, and reads
// the matching ones: open executions, which have a due_at, in index execution_kind_due, and
// ended executions in execution_list. To find the newest it must read all open executions.
// If there are more than 10 000, it reads executions in descending order of ids instead.
const executionsByKindSQL = `
WITH RECURSIVE open_kind AS (
    (SELECT queue, kind FROM eventhook.execution WHERE tenant_id = @tenant AND due_at IS NOT NULL AND input_size >= 0
     ORDER BY queue, kind LIMIT 1)
    UNION ALL
    SELECT n.* FROM open_kind s CROSS JOIN LATERAL (
        SELECT queue, kind FROM eventhook.execution
        WHERE tenant_id = @tenant AND due_at IS NOT NULL AND input_size >= 0 AND (queue, kind) > (s.queue, s.kind)
        ORDER BY queue, kind LIMIT 1) n
), open AS MATERIALIZED (
    SELECT n.id FROM open_kind s CROSS JOIN LATERAL (
        SELECT id FROM eventhook.execution e
        WHERE tenant_id = @tenant AND queue = s.queue AND kind = s.kind AND due_at IS NOT NULL AND input_size >= 0
          AND (id < @before) IS TRUE AND (@type = '' OR type = @type) AND (@status = '' OR status = @status)) n
    WHERE @status <> 'completed' AND (@kind = '' OR s.kind = @kind) AND (@queue = '' OR s.queue = @queue)
    LIMIT 10001
), closed_kind AS (
    (SELECT kind, queue, type FROM eventhook.execution WHERE tenant_id = @tenant AND due_at IS NULL AND input_size >= 0
     ORDER BY kind, queue, type LIMIT 1)
    UNION ALL
    SELECT n.* FROM closed_kind s CROSS JOIN LATERAL (
        SELECT kind, queue, type FROM eventhook.execution
        WHERE tenant_id = @tenant AND due_at IS NULL AND input_size >= 0 AND (kind, queue, type) > (s.kind, s.queue, s.type)
        ORDER BY kind, queue, type LIMIT 1) n
), found AS MATERIALIZED (
    SELECT id FROM open WHERE (SELECT count(*) FROM open) <= 10000
    UNION ALL
    SELECT n.id FROM closed_kind s CROSS JOIN LATERAL (
        SELECT id FROM eventhook.execution
        WHERE tenant_id = @tenant AND kind = s.kind AND queue = s.queue AND type = s.type AND id < @before AND (@status = '' OR status = @status)
          AND due_at IS NULL AND input_size >= 0
        ORDER BY kind DESC, queue DESC, type DESC, id DESC LIMIT @limit) n
    WHERE (SELECT count(*) FROM open) <= 10000 AND @status <> 'pending'
      AND (@type = '' OR s.type = @type) AND (@kind = '' OR s.kind = @kind) AND (@queue = '' OR s.queue = @queue)
    UNION ALL
    (SELECT e.id FROM eventhook.execution e WHERE (SELECT count(*) FROM open) > 10000` + executionFilter + newestExecutionsFirst + `)
)
SELECT ` + executionColumns + ` FROM (SELECT id FROM found ORDER BY id DESC LIMIT @limit) f JOIN eventhook.execution e ON e.id = f.id` + newestExecutionsFirst

// executionListSQL returns the statement that reads least for a filter.
func executionListSQL(f eventhook.ExecutionFilter) string {
	switch f.Status {
	case eventhook.ExecutionRunning, eventhook.ExecutionFailed, eventhook.ExecutionDead, eventhook.ExecutionSuspended, eventhook.ExecutionCancelled:
		return executionsByStatusSQL
	case eventhook.ExecutionPending:
		return executionsByKindSQL
	case eventhook.ExecutionCompleted: // most executions are completed
	}
	if f.Type != "" || f.Kind != "" || f.Queue != "" {
		return executionsByKindSQL
	}
	return newestExecutionsSQL
}

// Executions lists a tenant's executions, newest first.
func (db *DB) Executions(ctx context.Context, tenant eventhook.TenantID, f eventhook.ExecutionFilter) ([]eventhook.Execution, error) {
	rows, err := db.lists.Query(ctx, executionListSQL(f),
		executionListArgs(tenant, f))
	if err != nil {
		return nil, translate("list executions", err)
	}
	list, err := collectPage(rows, oneExecution)
	return list, translate("list executions", err)
}

func executionListArgs(tenant eventhook.TenantID, f eventhook.ExecutionFilter) pgx.StrictNamedArgs {
	return pgx.StrictNamedArgs{"tenant": [16]byte(tenant), "before": cursorArg(f.Before), "limit": f.Limit,
		"type": string(f.Type), "status": string(f.Status), "kind": f.Kind, "queue": f.Queue}
}
