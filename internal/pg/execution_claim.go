package pg

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/eventhook/eventhook"
)

const executionColumns = `e.id, e.tenant_id, e.type, e.kind, e.queue, e.status, e.event_id, coalesce(e.idempotency_key, ''),
    e.attempt, e.max_attempts, e.input, e.state, e.output, coalesce(e.error, ''), e.lease_token, e.due_at, e.created_at, e.completed_at`

// dueWorkSQL is what is due in a queue, oldest first. Index execution_due.
const dueWorkSQL = `
WITH due AS MATERIALIZED (
    SELECT id, status, due_at, attempt, max_attempts, input_size FROM eventhook.execution
    WHERE tenant_id = $1 AND queue = $2 AND due_at <= $3 AND $4::text[] IS NULL
    ORDER BY due_at LIMIT $5 FOR UPDATE SKIP LOCKED
)`

// oldestOfKindsSQL is the oldest of some kinds that are due, $5 in all, however
// many others are due before them. Index execution_kind_due, which only who
// says input_size >= 0 may use.
const oldestOfKindsSQL = `
WITH first AS MATERIALIZED (
    SELECT d.id, d.due_at FROM unnest($4::text[]) AS k (kind) CROSS JOIN LATERAL (
        SELECT id, due_at FROM eventhook.execution
        WHERE tenant_id = $1 AND queue = $2 AND kind = k.kind AND due_at <= $3 AND input_size >= 0
        ORDER BY due_at LIMIT $5::int) d
    ORDER BY d.due_at LIMIT $5::int
)`

// dueKindsSQL takes up to $9 of these which nobody else has locked. Primary key.
const dueKindsSQL = oldestOfKindsSQL + `, due AS MATERIALIZED (
    SELECT e.id, e.status, e.due_at, e.attempt, e.max_attempts, e.input_size
    FROM first f JOIN eventhook.execution e ON e.id = f.id
    WHERE e.due_at <= $3 ORDER BY f.due_at LIMIT $9 FOR UPDATE OF e SKIP LOCKED
)`

// countOldestSQL tells how many a claim of some kinds looks at.
const countOldestSQL = oldestOfKindsSQL + `
SELECT count(*) FROM first`

// leaseWorkSQL leases what is due and was locked, and skips what another worker
// is claiming. An execution whose worker died is due again when its lease runs
// out, a suspended one when its promises are settled or its time is over. A
// resumed workflow goes on with its attempt; all others start one, and those
// whose workers died in every attempt they had end here. What is due is picked
// in a WITH, which runs once, whatever the plan, so that the limit holds. An
// input that is the event's body comes with it. Primary keys.
const leaseWorkSQL = `, c AS MATERIALIZED (
    SELECT id, spent, next, status AS was, due_at AS was_due FROM (
        SELECT id, status, due_at, status = 'running' AND attempt >= max_attempts AS spent,
            CASE WHEN status = 'suspended' THEN attempt ELSE attempt + 1 END AS next,
            sum(input_size::bigint) OVER (ROWS UNBOUNDED PRECEDING) - input_size AS before
        FROM due
    ) sized WHERE before < $7
), claimed AS (
    UPDATE eventhook.execution e
    SET attempt = CASE WHEN c.spent THEN e.attempt ELSE c.next END,
        status = CASE WHEN c.spent THEN 'dead' ELSE 'running' END,
        due_at = CASE WHEN c.spent THEN NULL ELSE $6::timestamptz END,
        completed_at = CASE WHEN c.spent THEN $3::timestamptz END,
        error = CASE WHEN c.spent THEN 'the lease of the last attempt ran out' ELSE e.error END,
        lease_token = e.lease_token + 1,
        lease_seconds = $8
    FROM c
    WHERE e.id = c.id
    RETURNING ` + executionColumns + `, c.was, c.was_due
)
SELECT claimed.*, p.headers, p.body
FROM claimed LEFT JOIN eventhook.event_payload p ON p.event_id = claimed.event_id AND claimed.input IS NULL`

const (
	claimWorkSQL  = dueWorkSQL + leaseWorkSQL
	claimKindsSQL = dueKindsSQL + leaseWorkSQL
)

// ClaimWork leases up to q.Max due executions of a queue to a worker, with
// their events' payloads where these are the inputs; fewer, but one at least,
// when their inputs are large. It returns none, and no error, when there is
// nothing to do. Of one tenant a part of the connections claim at once; its
// other claims wait for them in order. When ctx has ended meanwhile, nobody is
// there to do the work: it is given back, and the error is that of ctx.
func (db *DB) ClaimWork(ctx context.Context, q eventhook.WorkQuery) (live []eventhook.Execution, err error) {
	err = db.withClaimSlot(ctx, q.Tenant, func() error {
		list, err := db.claimLive(ctx, q)
		if err != nil {
			return translate("claim work", err)
		}
		live = executionsIn(list)
		if err := cmp.Or(db.readAwaited(ctx, live), ctx.Err()); err != nil {
			live = nil
			return errors.Join(err, db.releaseClaims(ctx, q, list))
		}
		return nil
	})
	return live, err
}

// claimLive claims until it has something or nothing is left: what it ended is
// passed over. Those who claim at the same moment may have locked all of some
// kinds that it looks at; then it looks at more, until that is more than they
// have locked, or all that is due.
func (db *DB) claimLive(ctx context.Context, q eventhook.WorkQuery) ([]claimed, error) {
	look := 4 * q.Max
	for {
		list, err := db.claimWork(ctx, q, look)
		if err != nil {
			return nil, err
		}
		live := slices.DeleteFunc(slices.Clone(list), func(x claimed) bool { return x.Status == eventhook.ExecutionDead })
		if len(live) > 0 {
			return live, nil
		}
		if len(list) > 0 {
			continue
		}
		if isMore, err := db.hasMoreDue(ctx, q, look); !isMore {
			return nil, err
		}
		look *= 8
	}
}

// hasMoreDue reports whether more is due of q's kinds than a claim looked at. A
// claim of any kind looks at all.
func (db *DB) hasMoreDue(ctx context.Context, q eventhook.WorkQuery, look int) (bool, error) {
	kinds := kindsArg(q)
	if kinds == nil {
		return false, nil
	}
	var n int
	err := db.work.QueryRow(ctx, countOldestSQL, [16]byte(q.Tenant), q.Queue, db.now(), kinds, look).Scan(&n)
	return err == nil && n == look, err
}

// claimWork claims once; among what it returns are those that it ended. Of some
// kinds it looks at so many. Once it has a connection it does not end with ctx:
// what is claimed is known.
func (db *DB) claimWork(ctx context.Context, q eventhook.WorkQuery, look int) ([]claimed, error) {
	now := db.now()
	until := now.Add(q.Lease)
	sql, args := claimWorkSQL, []any{[16]byte(q.Tenant), q.Queue, now, []string(nil), q.Max, until, maxClaimBytes, int(q.Lease / time.Second)}
	if kinds := kindsArg(q); kinds != nil {
		sql, args = claimKindsSQL, []any{[16]byte(q.Tenant), q.Queue, now, kinds, look, until, maxClaimBytes, int(q.Lease / time.Second), q.Max}
	}
	conn, err := db.work.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Release()
	ctx, cancel := outliving(ctx)
	defer cancel()
	rows, err := conn.Query(ctx, sql, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(r pgx.CollectableRow) (x claimed, err error) {
		var payload eventhook.Payload
		x.Execution, err = scanExecution(r, (*string)(&x.was), &x.wasDue, &payload.Headers, &payload.Body)
		x.Lease.Until = until
		if payload.Headers != nil {
			x.Payload = &payload
		}
		return x, err
	})
}

// kindsArg is each kind that is wanted once; none is any.
func kindsArg(q eventhook.WorkQuery) []string {
	return slices.Compact(slices.Sorted(slices.Values(q.Kinds)))
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

// Awaited returns the promises that a workflow awaits or, when it has gone on,
// awaited last, oldest first; of what never was suspended, none.
func (db *DB) Awaited(ctx context.Context, x eventhook.Execution) ([]eventhook.Promise, error) {
	list := []eventhook.Execution{x}
	err := db.readAwaited(ctx, list)
	return list[0].Promises, err
}

// readAwaited gives workflows the promises that they await or awaited last.
func (db *DB) readAwaited(ctx context.Context, list []eventhook.Execution) error {
	place := map[eventhook.ExecutionID]int{}
	var ids [][16]byte
	for i, x := range list {
		// Who claims it first, and still has it, has not suspended it.
		if x.Type == eventhook.Workflow && (x.Lease.Token > 1 || x.Status == eventhook.ExecutionSuspended) {
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
		return db.leaseError(ctx, x)
	}
	return nil
}

func (db *DB) leaseError(ctx context.Context, x eventhook.Execution) error {
	if _, err := db.Execution(ctx, x.TenantID, x.ID); err != nil {
		return err
	}
	return eventhook.ErrLeaseLost
}

// heartbeatSQL extends a lease to a moment or, without one, by the length with
// which it was claimed. Primary key.
const heartbeatSQL = `
UPDATE eventhook.execution
SET due_at = coalesce($5::timestamptz, greatest(due_at, $4::timestamptz + lease_seconds * interval '1 second'))
WHERE id = $1 AND tenant_id = $2 AND lease_token = $3 AND status = 'running'
RETURNING due_at`

// Heartbeat extends the lease to so long from now and returns its new end. With
// a lease of 0 that is as long as the claim's, and never ends it sooner than it
// would have. Like Complete, Fail and Suspend it returns ErrLeaseLost, and
// writes nothing, if the lease token is not current, and KindNotFound if the
// tenant has no such execution.
func (db *DB) Heartbeat(ctx context.Context, x eventhook.Execution, lease time.Duration) (until time.Time, err error) {
	now := db.now()
	var given *time.Time
	if lease > 0 {
		given = new(now.Add(lease))
	}
	err = db.work.QueryRow(ctx, heartbeatSQL, [16]byte(x.ID), [16]byte(x.TenantID), x.Lease.Token, now, given).Scan(&until)
	if errors.Is(err, pgx.ErrNoRows) {
		return until, db.leaseError(ctx, x)
	}
	return until, translate("extend lease", err)
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
const lockPromisesSQL = `SELECT id, status FROM eventhook.promise
	WHERE tenant_id = $1 AND id = ANY($2::uuid[]) AND NOT is_held ORDER BY idempotency_key FOR SHARE`

const suspendSQL = `UPDATE eventhook.execution
	SET status = 'suspended', state = coalesce($4, state), due_at = $5
	WHERE id = $1 AND tenant_id = $2 AND lease_token = $3 AND status = 'running' AND type = 'workflow'
	RETURNING queue`

const awaitSQL = `WITH gone AS (DELETE FROM eventhook.execution_await WHERE execution_id = $1 AND promise_id <> ALL($2::uuid[]))
	INSERT INTO eventhook.execution_await (execution_id, promise_id) SELECT $1, unnest($2::uuid[]) ON CONFLICT DO NOTHING`

// Suspend keeps a workflow's state (the one before, if none is given) until the
// promises it awaits are all settled (at once, if they are) or its time is over;
// then it is claimed again. A promise the tenant does not have, or that is named
// twice, is KindInvalid.
func (db *DB) Suspend(ctx context.Context, x eventhook.Execution, s eventhook.Suspension) error {
	var queue string
	var isLost bool
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
		due := suspensionDueAt(db.now(), states, s.Timeout)
		err = tx.QueryRow(ctx, suspendSQL, [16]byte(x.ID), [16]byte(x.TenantID), x.Lease.Token, jsonArg(s.State), due).Scan(&queue)
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

// checkAwaited tells which of the promises do not exist, and which are named
// again.
func checkAwaited(ids []eventhook.PromiseID, exist map[eventhook.PromiseID]eventhook.PromiseStatus) error {
	var faults eventhook.Faults
	for i, id := range ids {
		at := fmt.Sprintf("body.await[%d]", i)
		if _, ok := exist[id]; !ok {
			faults.Add(at, "is the id of no promise of this tenant's; make it first")
		} else if first := slices.Index(ids, id); first < i {
			faults.Add(at, "is the same as body.await[%d]; name each promise once", first)
		}
	}
	return faults.Err(invalidRequest)
}

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

// suspensionDueAt is when a suspended workflow is due: now, if nothing awaited
// is pending; at its timeout; or, nil, when a promise wakes it.
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

// Cancel ends an execution that has not ended. Its worker's lease is lost.
func (db *DB) Cancel(ctx context.Context, tenant eventhook.TenantID, id eventhook.ExecutionID) (eventhook.Execution, error) {
	return db.move(ctx, tenant, id, "an execution that has ended cannot be cancelled",
		`status = 'cancelled', due_at = NULL, completed_at = $3, lease_token = lease_token + 1`,
		`status NOT IN ('completed', 'dead', 'cancelled')`)
}

// Retry makes an execution due that is failed, dead or cancelled, with all its
// attempts before it. A workflow goes on with its state and what it awaited,
// though that may still be pending.
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
	x, err := pgx.CollectExactlyOneRow(rows, oneExecution)
	return x, translate("read execution", notFound(err, "execution"))
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

// scanExecution reads executionColumns, and more that follow them.
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

// nextWorkSQL reads the first entry of execution_due.
const nextWorkSQL = `
SELECT min(due_at) FROM eventhook.execution
WHERE tenant_id = $1 AND queue = $2 AND due_at IS NOT NULL AND $3::text[] IS NULL`

// nextKindsSQL reads the first entry of each kind in execution_kind_due.
const nextKindsSQL = `
SELECT min(d.due_at) FROM unnest($3::text[]) AS k (kind) CROSS JOIN LATERAL (
    SELECT due_at FROM eventhook.execution
    WHERE tenant_id = $1 AND queue = $2 AND kind = k.kind AND due_at IS NOT NULL AND input_size >= 0
    ORDER BY due_at LIMIT 1) d`

// NextWork tells when the next execution that q wants is due; zero if none is
// owed. It counts as a claim of the tenant's.
func (db *DB) NextWork(ctx context.Context, q eventhook.WorkQuery) (time.Time, error) {
	sql := nextWorkSQL
	kinds := kindsArg(q)
	if kinds != nil {
		sql = nextKindsSQL
	}
	var next *time.Time
	err := db.withClaimSlot(ctx, q.Tenant, func() error {
		return db.work.QueryRow(ctx, sql, [16]byte(q.Tenant), q.Queue, kinds).Scan(&next)
	})
	if err != nil || next == nil {
		return time.Time{}, translate("read next work", err)
	}
	return *next, nil
}

// claimSlotShare is the part of the work connections that claims of one tenant may
// hold at once: one in so many.
const claimSlotShare = 4

// changeSlotShare is that part for changes of one tenant's configuration. All such
// changes may hold half of the connections.
const changeSlotShare = 8

// withClaimSlot does something with a connection of those that the tenant's claims
// may hold; before that it waits for its turn, or for ctx to end.
func (db *DB) withClaimSlot(ctx context.Context, tenant eventhook.TenantID, act func() error) error {
	line := db.claims.Open(tenant)
	defer db.claims.Close(tenant)
	select {
	case <-line.Slot():
	case <-ctx.Done():
		return ctx.Err()
	}
	defer line.Release()
	return act()
}
