package pg

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/eventhook/eventhook"
)

// Cancel ends an execution that has not ended; its worker loses the lease. If the execution
// has ended, the error is of KindConflict.
func (db *DB) Cancel(ctx context.Context, tenant eventhook.TenantID, id eventhook.ExecutionID) (eventhook.Execution, error) {
	return db.transition(ctx, tenant, id, "an execution that has ended cannot be cancelled", db.form(ctx, tenant, cancelSQL))
}

// cancelSQL and retrySQL change an execution, if its status allows it, and return it. $3 is
// now. Primary key.
var cancelSQL = newChangeSQL(`
WITH changed AS (
    UPDATE eventhook.execution e SET status = 'cancelled', due_at = NULL, completed_at = $3, lease_token = lease_token + 1
    WHERE id = $1 AND tenant_id = $2 AND status NOT IN ('completed', 'dead', 'cancelled')
    RETURNING `+executionColumns+`
)`, logExecutionsSQL("changed", "status", "$3"), `
SELECT count(*) FROM changed`)

const retrySQL = `
WITH changed AS (
    UPDATE eventhook.execution SET status = 'pending', due_at = $3::timestamptz + ` + behindByPriority + `, completed_at = NULL, attempt = 0, lease_token = lease_token + 1
    WHERE id = $1 AND tenant_id = $2 AND status IN ('failed', 'dead', 'cancelled')
    RETURNING id
)
SELECT count(*) FROM changed`

// Retry makes a failed, dead or cancelled execution due, with all its attempts left. If the
// execution has another status, the error is of KindConflict. A workflow keeps its state and the
// promises that it awaited, which may still be pending.
func (db *DB) Retry(ctx context.Context, tenant eventhook.TenantID, id eventhook.ExecutionID) (eventhook.Execution, error) {
	x, err := db.transition(ctx, tenant, id, "only a failed, dead or cancelled execution can be retried", retrySQL)
	if err == nil {
		db.hub.wake(workTopic(tenant, x.Queue))
	}
	return x, err
}

// transition changes an execution by a statement that returns the number of changed rows. If
// that is 0, it returns KindConflict with the message refusal.
func (db *DB) transition(ctx context.Context, tenant eventhook.TenantID, id eventhook.ExecutionID, refusal,
	sql string) (eventhook.Execution, error) {
	var changed int
	if err := db.work.QueryRow(ctx, sql, [16]byte(id), [16]byte(tenant), db.now()).Scan(&changed); err != nil {
		return eventhook.Execution{}, translate("change execution", err)
	}
	x, err := db.Execution(ctx, tenant, id)
	if err == nil && changed == 0 {
		err = &eventhook.Error{Kind: eventhook.KindConflict, Message: refusal}
	}
	return x, err
}

// lockPromisesSQL locks promises in the order of their keys, and waits for concurrent
// transactions that settle them. Lock order: promises by key, then executions.
const lockPromisesSQL = `SELECT id, status FROM eventhook.promise
	WHERE tenant_id = $1 AND id = ANY($2::uuid[]) AND NOT is_held ORDER BY idempotency_key FOR SHARE`

// suspendSQL ends the lease of a workflow. $6 is now. Primary key.
var suspendSQL = newChangeSQL(`
WITH changed AS (
    UPDATE eventhook.execution e SET status = 'suspended', state = coalesce($4, state), due_at = $5
    WHERE id = $1 AND tenant_id = $2 AND lease_token = $3 AND status = 'running' AND type = 'workflow'
    RETURNING `+executionColumns+`
)`, logExecutionsSQL("changed", "status", "$6"), `
SELECT queue FROM changed WHERE $6::timestamptz IS NOT NULL`)

const awaitSQL = `WITH removed AS (DELETE FROM eventhook.execution_await WHERE execution_id = $1 AND promise_id <> ALL($2::uuid[]))
	INSERT INTO eventhook.execution_await (execution_id, promise_id) SELECT $1, unnest($2::uuid[]) ON CONFLICT DO NOTHING`

// Suspend stores a workflow's state, or keeps the previous state if s has no State, and ends
// the lease. The workflow can be claimed again when all promises in s.Await are settled,
// which may be at once, or after s.Timeout. If the tenant does not have a promise, or it
// is listed twice, the error is of KindInvalid. If x is a task, it is of KindConflict.
func (db *DB) Suspend(ctx context.Context, x eventhook.Execution, s eventhook.Suspension) error {
	var queue string
	var isLost bool
	suspend := db.form(ctx, x.TenantID, suspendSQL)
	err := db.inTxIf(ctx, func(tx pgx.Tx) (commit bool, err error) {
		rows, err := tx.Query(ctx, lockPromisesSQL, [16]byte(x.TenantID), uuids(s.Await))
		if err != nil {
			return false, err
		}
		states := map[eventhook.PromiseID]eventhook.PromiseStatus{}
		var id eventhook.PromiseID
		var status string
		_, err = pgx.ForEachRow(rows, []any{(*[16]byte)(&id), &status}, func() error {
			states[id] = eventhook.PromiseStatus(status)
			return nil
		})
		if err != nil {
			return false, err
		}
		if err := checkAwaited(s.Await, states); err != nil {
			return false, err
		}
		now := db.now()
		due := suspensionDueAt(now, states, s.Timeout)
		err = tx.QueryRow(ctx, suspend, [16]byte(x.ID), [16]byte(x.TenantID), x.Lease.Token, jsonArg(s.State), due, now).Scan(&queue)
		if isLost = errors.Is(err, pgx.ErrNoRows); isLost {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		_, err = tx.Exec(ctx, awaitSQL, [16]byte(x.ID), uuids(s.Await))
		return true, err
	})
	switch {
	case err != nil:
		return translate("suspend execution", err)
	case isLost:
		return db.suspendRefusal(ctx, x)
	}
	db.hub.wake(workTopic(x.TenantID, queue))
	return nil
}

// checkAwaited returns a fault for each promise that does not exist or is listed twice.
func checkAwaited(ids []eventhook.PromiseID, exist map[eventhook.PromiseID]eventhook.PromiseStatus) error {
	var faults eventhook.Faults
	for i, id := range ids {
		at := fmt.Sprintf("body.await[%d]", i)
		if _, ok := exist[id]; !ok {
			faults.Add(at, "is not the id of a promise of this tenant; create the promise first")
		} else if first := slices.Index(ids, id); first < i {
			faults.Add(at, "repeats body.await[%d]; list each promise once", first)
		}
	}
	return faults.Err(invalidRequest)
}

// suspendRefusal returns the error of a Suspend that changed nothing: the execution is a
// task, its lease was lost, or it does not exist.
func (db *DB) suspendRefusal(ctx context.Context, x eventhook.Execution) error {
	current, err := db.Execution(ctx, x.TenantID, x.ID)
	if err != nil {
		return err
	}
	if current.Type != eventhook.Workflow {
		return &eventhook.Error{Kind: eventhook.KindConflict, Message: "only a workflow can be suspended; this is a task"}
	}
	return eventhook.ErrLeaseLost
}

// suspensionDueAt returns when a suspended workflow is due: now if no promise is pending, and
// at its timeout otherwise. It returns nil if there is no timeout; then resumeWorkflows
// makes the workflow due.
func suspensionDueAt(now time.Time, states map[eventhook.PromiseID]eventhook.PromiseStatus, timeout time.Duration) *time.Time {
	pending := false
	for _, s := range states {
		pending = pending || s == eventhook.PromisePending
	}
	if !pending {
		return &now
	}
	if timeout > 0 {
		return new(now.Add(timeout))
	}
	return nil
}
