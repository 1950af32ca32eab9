package pg

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/eventhook/eventhook"
)

const executionColumns = `e.id, e.tenant_id, e.type, e.kind, e.queue, e.status, e.event_id, coalesce(e.idempotency_key, '') AS idempotency_key,
    e.attempt, e.max_attempts, e.priority, coalesce(e.trace_id, '') AS trace_id, coalesce(e.trace_flags, '') AS trace_flags, e.input, e.state, e.output, coalesce(e.error, '') AS error, e.lease_token, e.due_at,
    e.created_at, e.completed_at`

// Execution returns one of the tenant's executions, or KindNotFound.
func (db *DB) Execution(ctx context.Context, tenant eventhook.TenantID, id eventhook.ExecutionID) (eventhook.Execution, error) {
	rows, err := db.work.Query(ctx, `SELECT `+executionColumns+` FROM eventhook.execution e WHERE e.id = $1 AND e.tenant_id = $2`,
		[16]byte(id), [16]byte(tenant))
	if err != nil {
		return eventhook.Execution{}, translate("read execution", err)
	}
	x, err := pgx.CollectExactlyOneRow(rows, oneExecution)
	return x, translate("read execution", notFound(err, "execution"))
}

// scanExecution scans executionColumns, followed by more.
func scanExecution(row pgx.CollectableRow, more ...any) (x eventhook.Execution, err error) {
	var typ, status string
	var event *[16]byte
	err = row.Scan(append([]any{(*[16]byte)(&x.ID), (*[16]byte)(&x.TenantID), &typ, &x.Kind, &x.Queue, &status, &event, &x.IdempotencyKey,
		&x.Attempt, &x.MaxAttempts, &x.Priority, &x.TraceID, &x.TraceFlags, (*[]byte)(&x.Input), (*[]byte)(&x.State), (*[]byte)(&x.Output), &x.Error,
		&x.Lease.Token, &x.DueAt, &x.CreatedAt, &x.CompletedAt}, more...)...)
	x.Type, x.Status = eventhook.ExecutionType(typ), eventhook.ExecutionStatus(status)
	if event != nil {
		x.EventID = *event
	}
	if waits := x.Status == eventhook.ExecutionPending || x.Status == eventhook.ExecutionFailed; waits && x.DueAt != nil {
		x.DueAt = new(x.DueAt.Add(-behind(x.Priority)))
	}
	return x, err
}

func oneExecution(row pgx.CollectableRow) (eventhook.Execution, error) { return scanExecution(row) }

// readAwaitedSQL reads the promises that workflows awaited when they were last suspended.
// Index execution_await_execution, then primary key.
const readAwaitedSQL = `
SELECT p.id, p.tenant_id, p.idempotency_key, p.status, p.value, coalesce(p.error, ''), p.workflow_execution_id,
    p.expires_at, p.created_at, p.settled_at, w.execution_id
FROM unnest($1::uuid[]) AS u (id)
JOIN eventhook.execution_await w ON w.execution_id = u.id
JOIN eventhook.promise p ON p.id = w.promise_id
ORDER BY p.id`

// Awaited returns the promises that a workflow awaits, oldest first. If it has resumed,
// these are the promises of its last suspension. An execution that was never suspended has
// no promises.
func (db *DB) Awaited(ctx context.Context, x eventhook.Execution) ([]eventhook.Promise, error) {
	list := []eventhook.Execution{x}
	err := db.readAwaited(ctx, list)
	return list[0].Promises, err
}

// readAwaited sets Promises of workflows to the promises that they await or awaited last.
func (db *DB) readAwaited(ctx context.Context, list []eventhook.Execution) error {
	index := map[eventhook.ExecutionID]int{}
	var ids [][16]byte
	for i, x := range list {
		// A workflow in its first lease has not been suspended yet.
		if x.Type == eventhook.Workflow && (x.Lease.Token > 1 || x.Status == eventhook.ExecutionSuspended) {
			index[x.ID] = i
			ids = append(ids, x.ID)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	rows, err := db.work.Query(ctx, readAwaitedSQL, ids)
	if err != nil {
		return translate("read awaited promises", err)
	}
	defer rows.Close()
	for rows.Next() {
		var id eventhook.ExecutionID
		p, err := scanPromise(rows, (*[16]byte)(&id))
		if err != nil {
			return translate("read awaited promises", err)
		}
		x := &list[index[id]]
		x.Promises = append(x.Promises, p)
	}
	return translate("read awaited promises", rows.Err())
}

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
func (db *DB) Executions(ctx context.Context, tenant eventhook.TenantID, f eventhook.ExecutionFilter) (list []eventhook.Execution, err error) {
	err = db.list(ctx, func(ctx context.Context, lists *listPool) error {
		rows, err := lists.Query(ctx, executionListSQL(f), executionListArgs(tenant, f))
		if err != nil {
			return err
		}
		list, err = collectPage(rows, oneExecution)
		return err
	})
	return list, translate("list executions", err)
}

func executionListArgs(tenant eventhook.TenantID, f eventhook.ExecutionFilter) pgx.StrictNamedArgs {
	return pgx.StrictNamedArgs{"tenant": [16]byte(tenant), "before": cursorArg(f.Before), "limit": f.Limit,
		"type": string(f.Type), "status": string(f.Status), "kind": f.Kind, "queue": f.Queue}
}
