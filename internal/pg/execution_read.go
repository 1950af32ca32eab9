package pg

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/eventhook/eventhook"
)

const executionColumns = `e.id, e.tenant_id, e.type, e.kind, e.queue, e.status, e.event_id, coalesce(e.idempotency_key, ''),
    e.attempt, e.max_attempts, e.input, e.state, e.output, coalesce(e.error, ''), e.lease_token, e.due_at, e.created_at, e.completed_at`

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
		&x.Attempt, &x.MaxAttempts, (*[]byte)(&x.Input), (*[]byte)(&x.State), (*[]byte)(&x.Output), &x.Error,
		&x.Lease.Token, &x.DueAt, &x.CreatedAt, &x.CompletedAt}, more...)...)
	x.Type, x.Status = eventhook.ExecutionType(typ), eventhook.ExecutionStatus(status)
	if event != nil {
		x.EventID = *event
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

// executionAgeSQL skips from queue to queue in index execution_due and reads the first
// row of each. Its cost grows with the number of queues that have due work, not with the
// number of executions.
const executionAgeSQL = `
WITH RECURSIVE first AS (
    (SELECT tenant_id, queue, due_at FROM eventhook.execution WHERE due_at IS NOT NULL
     ORDER BY tenant_id, queue, due_at LIMIT 1)
    UNION ALL
    SELECT n.* FROM first f CROSS JOIN LATERAL (
        SELECT tenant_id, queue, due_at FROM eventhook.execution
        WHERE due_at IS NOT NULL AND (tenant_id, queue) > (f.tenant_id, f.queue)
        ORDER BY tenant_id, queue, due_at LIMIT 1) n
)
SELECT min(due_at) FROM first`

// ExecutionQueueAge returns the age of the oldest due execution, 0 if no execution is due.
func (db *DB) ExecutionQueueAge(ctx context.Context) (time.Duration, error) {
	return db.queueAge(ctx, executionAgeSQL)
}
