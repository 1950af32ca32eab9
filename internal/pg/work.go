package pg

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/eventhook/eventhook"
)

const executionColumns = `e.id, e.tenant_id, e.type, e.kind, e.queue, e.status, e.event_id, coalesce(e.idempotency_key, ''),
    e.attempt, e.max_attempts, e.input, e.state, e.output, coalesce(e.error, ''), e.lease_token, e.due_at, e.created_at, e.completed_at`

// claimWorkSQL leases due executions, oldest first, and skips those another
// worker is claiming. An execution whose worker died is due again when its
// lease runs out, a suspended one when its promises are settled or its time is
// over. A resumed workflow goes on with its attempt; all others start one, and
// those whose workers died in every attempt they had end here. It picks them
// in a WITH, which runs once, whatever the plan, so that the limit holds.
// Index execution_due.
const claimWorkSQL = `
WITH c AS MATERIALIZED (
    SELECT id, spent, next FROM (
        SELECT id, spent, next, sum(input_size) OVER (ROWS UNBOUNDED PRECEDING) - input_size AS before FROM (
            SELECT id, status = 'running' AND attempt >= max_attempts AS spent, input_size::bigint AS input_size,
                   CASE WHEN status = 'suspended' THEN attempt ELSE attempt + 1 END AS next
            FROM eventhook.execution
            WHERE tenant_id = $1 AND queue = $2 AND due_at <= $3 AND ($6::text[] IS NULL OR kind = ANY($6))
            ORDER BY due_at LIMIT $4 FOR UPDATE SKIP LOCKED
        ) due
    ) sized WHERE before < $7
)
UPDATE eventhook.execution e
SET attempt = CASE WHEN c.spent THEN e.attempt ELSE c.next END,
    status = CASE WHEN c.spent THEN 'dead' ELSE 'running' END,
    due_at = CASE WHEN c.spent THEN NULL ELSE $5::timestamptz END,
    completed_at = CASE WHEN c.spent THEN $3::timestamptz END,
    error = CASE WHEN c.spent THEN 'the lease of the last attempt ran out' ELSE e.error END,
    lease_token = e.lease_token + 1
FROM c
WHERE e.id = c.id
RETURNING ` + executionColumns

// ClaimWork leases up to q.Max due executions of a queue to a worker; fewer,
// but one at least, when their inputs are large. It returns none, and no error, when there is nothing to do.
func (db *DB) ClaimWork(ctx context.Context, q eventhook.WorkQuery) ([]eventhook.Execution, error) {
	for {
		list, err := db.claimWork(ctx, q)
		if err != nil {
			return nil, translate("claim work", err)
		}
		live := slices.DeleteFunc(list, func(x eventhook.Execution) bool { return x.Status == eventhook.ExecutionDead })
		if len(live) > 0 || len(list) == 0 {
			if err := db.readAwaited(ctx, live); err != nil {
				return nil, err // their leases run out
			}
			return live, nil
		}
	}
}

// claimWork claims once; among what it returns are those that it ended.
func (db *DB) claimWork(ctx context.Context, q eventhook.WorkQuery) ([]eventhook.Execution, error) {
	now := db.now()
	until := now.Add(q.Lease)
	var kinds any
	if len(q.Kinds) > 0 {
		kinds = q.Kinds
	}
	rows, err := db.work.Query(ctx, claimWorkSQL, [16]byte(q.Tenant), q.Queue, now, q.Max, until, kinds, claimBytes)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(r pgx.CollectableRow) (eventhook.Execution, error) {
		x, err := scanExecution(r)
		x.Lease.Until = until
		return x, err
	})
}

// readAwaitedSQL reads what workflows awaited when they were last suspended.
// Index execution_await_execution, then primary key.
const readAwaitedSQL = `
SELECT p.id, p.tenant_id, p.idempotency_key, p.status, p.value, coalesce(p.error, ''), p.workflow_execution_id,
    p.expires_at, p.created_at, p.settled_at, w.execution_id
FROM unnest($1::uuid[]) AS u (id)
JOIN eventhook.execution_await w ON w.execution_id = u.id
JOIN eventhook.promise p ON p.id = w.promise_id
ORDER BY p.id`

// readAwaited gives resumed workflows the promises that they awaited.
func (db *DB) readAwaited(ctx context.Context, list []eventhook.Execution) error {
	place := map[eventhook.ExecutionID]int{}
	var ids [][16]byte
	for i, x := range list {
		if x.Type == eventhook.Workflow {
			place[x.ID] = i
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
		x := &list[place[id]]
		x.Promises = append(x.Promises, p)
	}
	return translate("read awaited promises", rows.Err())
}

// held updates an execution whose lease is current, and tells a lost lease
// from an execution that is not there. A lease that ran out is lost only once
// somebody else has claimed the execution or it was ended: its work is not
// thrown away because it came late.
func (db *DB) held(ctx context.Context, act string, x eventhook.Execution, set string, args ...any) error {
	args = append([]any{[16]byte(x.ID), [16]byte(x.TenantID), x.Lease.Token}, args...)
	tag, err := db.work.Exec(ctx, `UPDATE eventhook.execution SET `+set+`
		WHERE id = $1 AND tenant_id = $2 AND lease_token = $3 AND status = 'running'`, args...)
	if err != nil {
		return translate(act, err)
	}
	if tag.RowsAffected() == 0 {
		return db.lostOrAbsent(ctx, x)
	}
	return nil
}

func (db *DB) lostOrAbsent(ctx context.Context, x eventhook.Execution) error {
	if _, err := db.Execution(ctx, x.TenantID, x.ID); err != nil {
		return err
	}
	return eventhook.ErrLeaseLost
}

// Heartbeat extends the lease and returns its new end. Like Complete, Fail and
// Suspend it returns ErrLeaseLost, and writes nothing, if the lease token is
// not current, and KindNotFound if the tenant has no such execution.
func (db *DB) Heartbeat(ctx context.Context, x eventhook.Execution, lease time.Duration) (time.Time, error) {
	until := db.now().Add(lease)
	return until, db.held(ctx, "extend lease", x, `due_at = $4`, until)
}

// Complete ends an execution with its output.
func (db *DB) Complete(ctx context.Context, x eventhook.Execution, output json.RawMessage) error {
	return db.held(ctx, "complete execution", x,
		`status = 'completed', due_at = NULL, completed_at = $4, output = $5, error = NULL`, db.now(), jsonArg(output))
}

// Fail ends an attempt. A retryable failure is tried again, after the delay
// that policy gives for it, while attempts are left; else it is dead. It
// returns the moment of the next attempt, zero if there is none.
func (db *DB) Fail(ctx context.Context, x eventhook.Execution, message string, retryable bool, policy eventhook.RetryPolicy) (next time.Time, err error) {
	current, err := db.Execution(ctx, x.TenantID, x.ID)
	if err != nil {
		return next, err
	}
	now := db.now()
	policy.MaxRetries = new(current.MaxAttempts - 1)
	if delay, more := policy.Delay(current.Attempt); retryable && more {
		next = now.Add(delay)
		err := db.held(ctx, "fail execution", x, `status = 'failed', due_at = $4, error = $5`, next, textArg(message))
		if err != nil {
			return time.Time{}, err
		}
		return next, nil
	}
	return time.Time{}, db.held(ctx, "fail execution", x,
		`status = 'dead', due_at = NULL, completed_at = $4, error = $5`, now, textArg(message))
}

// lockPromisesSQL takes the promises before the execution and in the order of
// their keys, as everybody does, and waits for whoever is settling one.
const lockPromisesSQL = `SELECT status FROM eventhook.promise
	WHERE tenant_id = $1 AND id = ANY($2::uuid[]) AND NOT is_held ORDER BY idempotency_key FOR SHARE`

const suspendSQL = `UPDATE eventhook.execution
	SET status = 'suspended', state = coalesce($4, state), due_at = $5
	WHERE id = $1 AND tenant_id = $2 AND lease_token = $3 AND status = 'running' AND type = 'workflow'
	RETURNING queue`

const awaitSQL = `WITH gone AS (DELETE FROM eventhook.execution_await WHERE execution_id = $1 AND promise_id <> ALL($2::uuid[]))
	INSERT INTO eventhook.execution_await (execution_id, promise_id) SELECT $1, unnest($2::uuid[]) ON CONFLICT DO NOTHING`

// Suspend keeps a workflow's state (the one before, if none is given) until the promises it awaits are all
// settled (at once, if they are) or its time is over; then it is claimed
// again. A promise the tenant does not have is KindInvalid.
func (db *DB) Suspend(ctx context.Context, x eventhook.Execution, s eventhook.Suspension) error {
	var queue string
	err := db.inTx(ctx, "suspend execution", func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, lockPromisesSQL, [16]byte(x.TenantID), uuids(s.Await))
		if err != nil {
			return err
		}
		states, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			return err
		}
		if len(states) != len(s.Await) {
			return invalid("await", "names a promise that does not exist, or one twice")
		}
		due := suspendedUntil(db.now(), states, s.Timeout)
		err = tx.QueryRow(ctx, suspendSQL, [16]byte(x.ID), [16]byte(x.TenantID), x.Lease.Token, jsonArg(s.State), due).Scan(&queue)
		if errors.Is(err, pgx.ErrNoRows) {
			return eventhook.ErrLeaseLost
		}
		if err != nil {
			return err
		}
		_, err = tx.Exec(ctx, awaitSQL, [16]byte(x.ID), uuids(s.Await))
		return err
	})
	if errors.Is(err, eventhook.ErrLeaseLost) {
		return db.cannotSuspend(ctx, x)
	}
	if err == nil {
		db.hub.wake(workTopic(x.TenantID, queue))
	}
	return err
}

func (db *DB) cannotSuspend(ctx context.Context, x eventhook.Execution) error {
	current, err := db.Execution(ctx, x.TenantID, x.ID)
	if err != nil {
		return err
	}
	if current.Type != eventhook.Workflow {
		return &eventhook.Error{Kind: eventhook.KindConflict, Message: "only a workflow can be suspended; this is a task"}
	}
	return eventhook.ErrLeaseLost
}

// suspendedUntil is when a suspended workflow is due: now, if nothing awaited
// is pending; at its timeout; or, nil, when a promise wakes it.
func suspendedUntil(now time.Time, states []string, timeout time.Duration) *time.Time {
	pending := false
	for _, s := range states {
		pending = pending || s == string(eventhook.PromisePending)
	}
	if !pending {
		return &now
	}
	if timeout > 0 {
		return new(now.Add(timeout))
	}
	return nil
}

// Cancel ends an execution that has not ended. Its worker's lease is lost.
func (db *DB) Cancel(ctx context.Context, tenant eventhook.TenantID, id eventhook.ExecutionID) (eventhook.Execution, error) {
	return db.move(ctx, tenant, id, "an execution that has ended cannot be cancelled",
		`status = 'cancelled', due_at = NULL, completed_at = $3, lease_token = lease_token + 1`,
		`status NOT IN ('completed', 'dead', 'cancelled')`)
}

// Retry starts an execution anew that is failed, dead or cancelled, with all
// its attempts.
func (db *DB) Retry(ctx context.Context, tenant eventhook.TenantID, id eventhook.ExecutionID) (eventhook.Execution, error) {
	x, err := db.move(ctx, tenant, id, "only a failed, dead or cancelled execution can be retried",
		`status = 'pending', due_at = $3, completed_at = NULL, attempt = 0, lease_token = lease_token + 1`,
		`status IN ('failed', 'dead', 'cancelled')`)
	if err == nil {
		db.hub.wake(workTopic(tenant, x.Queue))
	}
	return x, err
}

// move changes an execution by a person's wish if its state allows it.
func (db *DB) move(ctx context.Context, tenant eventhook.TenantID, id eventhook.ExecutionID, refusal, set, where string) (eventhook.Execution, error) {
	tag, err := db.work.Exec(ctx, `UPDATE eventhook.execution SET `+set+`
		WHERE id = $1 AND tenant_id = $2 AND $3::timestamptz IS NOT NULL AND `+where, [16]byte(id), [16]byte(tenant), db.now())
	if err != nil {
		return eventhook.Execution{}, translate("change execution", err)
	}
	x, err := db.Execution(ctx, tenant, id)
	if err == nil && tag.RowsAffected() == 0 {
		err = &eventhook.Error{Kind: eventhook.KindConflict, Message: refusal}
	}
	return x, err
}

// Execution returns one of the tenant's executions, or KindNotFound.
func (db *DB) Execution(ctx context.Context, tenant eventhook.TenantID, id eventhook.ExecutionID) (eventhook.Execution, error) {
	rows, err := db.work.Query(ctx, `SELECT `+executionColumns+` FROM eventhook.execution e WHERE e.id = $1 AND e.tenant_id = $2`,
		[16]byte(id), [16]byte(tenant))
	if err != nil {
		return eventhook.Execution{}, translate("read execution", err)
	}
	x, err := pgx.CollectExactlyOneRow(rows, scanExecution)
	return x, translate("read execution", notFound(err, "execution"))
}

// Executions lists a tenant's executions, newest first. Index execution_tenant.
func (db *DB) Executions(ctx context.Context, tenant eventhook.TenantID, f eventhook.ExecutionFilter) ([]eventhook.Execution, error) {
	rows, err := db.lists.Query(ctx, `SELECT `+executionColumns+` FROM eventhook.execution e
		WHERE e.tenant_id = $1 AND ($2 = '' OR e.type = $2) AND ($3 = '' OR e.status = $3) AND ($4 = '' OR e.kind = $4)
		  AND ($5 = '' OR e.queue = $5) AND ($6::uuid IS NULL OR e.id < $6)
		ORDER BY e.id DESC LIMIT $7`,
		[16]byte(tenant), string(f.Type), string(f.Status), f.Kind, f.Queue, uuidArg(f.Before), f.Limit)
	if err != nil {
		return nil, translate("list executions", err)
	}
	list, err := pgx.CollectRows(rows, scanExecution)
	return list, translate("list executions", err)
}

// Payloads returns the payloads of events; those past their retention are
// missing. Primary key.
func (db *DB) Payloads(ctx context.Context, events []eventhook.EventID) (map[eventhook.EventID]eventhook.Payload, error) {
	rows, err := db.work.Query(ctx, readPayloadsSQL, uuids(events))
	if err != nil {
		return nil, translate("read payloads", err)
	}
	payloads := make(map[eventhook.EventID]eventhook.Payload, len(events))
	var id eventhook.EventID
	var p eventhook.Payload
	_, err = pgx.ForEachRow(rows, []any{(*[16]byte)(&id), &p.Headers, &p.Body}, func() error {
		payloads[id] = p
		p = eventhook.Payload{}
		return nil
	})
	return payloads, translate("read payloads", err)
}

func scanExecution(row pgx.CollectableRow) (x eventhook.Execution, err error) {
	var typ, status string
	var event *[16]byte
	err = row.Scan((*[16]byte)(&x.ID), (*[16]byte)(&x.TenantID), &typ, &x.Kind, &x.Queue, &status, &event, &x.IdempotencyKey,
		&x.Attempt, &x.MaxAttempts, (*[]byte)(&x.Input), (*[]byte)(&x.State), (*[]byte)(&x.Output), &x.Error,
		&x.Lease.Token, &x.DueAt, &x.CreatedAt, &x.CompletedAt)
	x.Type, x.Status = eventhook.ExecutionType(typ), eventhook.ExecutionStatus(status)
	if event != nil {
		x.EventID = *event
	}
	return x, err
}
