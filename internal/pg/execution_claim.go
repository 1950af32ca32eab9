package pg

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/eventhook/eventhook"
)

// The statements that claim executions have named parameters: @tenant, @queue, @now,
// @kinds, @max (executions to claim), @look (executions to look at), @until (the end of
// the lease), @max_bytes (of their inputs), and @lease_seconds.

// dueWorkSQL locks the executions of a queue that are due, oldest first. It locks none if
// executions with a priority wait in the queue. Index execution_due.
const dueWorkSQL = priorityGateSQL + `, due AS MATERIALIZED (
    SELECT id, status, due_at, attempt, max_attempts, input_size FROM eventhook.execution
    WHERE tenant_id = @tenant AND queue = @queue AND due_at <= @now AND NOT (SELECT is_open FROM priority_gate)
    ORDER BY due_at LIMIT @max FOR UPDATE SKIP LOCKED
)`

// oldestOfKindsSQL finds the oldest due executions of some kinds, @look in all. Its cost
// does not depend on how many executions of other kinds are due before them. Index
// execution_kind_due, which the planner uses only with input_size >= 0.
const oldestOfKindsSQL = priorityGateSQL + `, first AS MATERIALIZED (
    SELECT d.id, d.due_at FROM unnest(@kinds::text[]) AS k (kind) CROSS JOIN LATERAL (
        SELECT id, due_at FROM eventhook.execution
        WHERE tenant_id = @tenant AND queue = @queue AND kind = k.kind AND due_at <= @now AND input_size >= 0
        ORDER BY due_at LIMIT @look::int) d
    WHERE NOT (SELECT is_open FROM priority_gate)
    ORDER BY d.due_at LIMIT @look::int
)`

// dueKindsSQL locks up to @max of these executions and skips locked ones. Primary key.
const dueKindsSQL = oldestOfKindsSQL + `, due AS MATERIALIZED (
    SELECT e.id, e.status, e.due_at, e.attempt, e.max_attempts, e.input_size
    FROM first f JOIN eventhook.execution e ON e.id = f.id
    WHERE e.due_at <= @now ORDER BY f.due_at LIMIT @max FOR UPDATE OF e SKIP LOCKED
)`

// countOldestSQL counts the executions that a claim of some kinds looks at.
const countOldestSQL = oldestOfKindsSQL + `
SELECT count(*) FROM first`

// leaseWorkSQL leases the executions that were locked. An execution whose worker died
// is due again when its lease ends, and a suspended workflow when its promises are settled
// or its timeout is over. A resumed workflow continues its attempt. Any other execution
// starts a new attempt. An execution whose lease ran out in its last attempt becomes dead. Due executions
// are picked in a WITH that is MATERIALIZED, which runs once in any plan, so that the
// limit holds. If the input is the event's payload, the statement returns it. The first
// column says whether executions with a priority wait in the queue; if there is no
// execution to return, the statement returns one row with only this column. Primary keys.
const leaseWorkSQL = `, c AS MATERIALIZED (
    SELECT id, spent, next, status AS was, due_at AS was_due FROM (
        SELECT id, status, due_at, status = 'running' AND attempt >= max_attempts AS spent,
            CASE WHEN status = 'suspended' THEN attempt ELSE attempt + 1 END AS next,
            sum(input_size::bigint) OVER (ROWS UNBOUNDED PRECEDING) - input_size AS before
        FROM due
    ) sized WHERE before < @max_bytes
), claimed AS (
    UPDATE eventhook.execution e
    SET attempt = CASE WHEN c.spent THEN e.attempt ELSE c.next END,
        status = CASE WHEN c.spent THEN 'dead' ELSE 'running' END,
        due_at = CASE WHEN c.spent THEN NULL ELSE @until::timestamptz END,
        completed_at = CASE WHEN c.spent THEN @now::timestamptz END,
        error = CASE WHEN c.spent THEN 'the lease of the last attempt ran out' ELSE e.error END,
        lease_token = e.lease_token + 1,
        lease_seconds = @lease_seconds
    FROM c
    WHERE e.id = c.id
    RETURNING ` + executionColumns + `, c.was, c.was_due
)`

var logClaimedSQL = logExecutionsSQL("claimed", "CASE WHEN status = 'dead' THEN 'dead' WHEN was = 'suspended' THEN 'resumed' ELSE 'started' END", "@now")

const readClaimedSQL = `
SELECT g.is_open, claimed.*, p.headers, p.body
FROM priority_gate g LEFT JOIN claimed ON true LEFT JOIN eventhook.event_payload p ON p.event_id = claimed.event_id AND claimed.input IS NULL`

var (
	claimWorkSQL  = newChangeSQL(dueWorkSQL+leaseWorkSQL, logClaimedSQL, readClaimedSQL)
	claimKindsSQL = newChangeSQL(dueKindsSQL+leaseWorkSQL, logClaimedSQL, readClaimedSQL)
)

// ClaimWork leases up to q.Max due executions of a queue to a worker, with the payloads
// of their events where these are the inputs. It returns fewer, but at least one, if
// their inputs are large, and an empty list if nothing is due. The
// claims of one tenant use at most 1/claimSlotShare of the work connections; further claims
// of the tenant wait in order. If ctx ends before ClaimWork returns, no worker receives the
// executions, so ClaimWork releases them and returns the error of ctx.
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

// claimLive claims until it has an execution or no execution is due, and omits executions
// that became dead in the claim. A claim of some kinds looks at a limited number of due
// executions, all of which concurrent claims may have locked. Then claimLive looks at more
// of them, until one is not locked or it has looked at all that are due.
func (db *DB) claimLive(ctx context.Context, q eventhook.WorkQuery) ([]claimedExecution, error) {
	const (
		claimsInFirstLook = 4 // concurrent claims of q.Max executions
		lookGrowth        = 8
	)
	c := workClaim{WorkQuery: q, look: claimsInFirstLook * q.Max}
	for {
		list, byPlace, err := db.claimWork(ctx, c)
		if err != nil {
			return nil, err
		}
		live := slices.DeleteFunc(slices.Clone(list), func(x claimedExecution) bool { return x.Status == eventhook.ExecutionDead })
		if lost := len(list) - len(live); lost > 0 {
			db.observer.ExecutionsLost(lost)
		}
		switch {
		case len(live) > 0:
			return live, nil
		case len(list) > 0:
			continue
		case byPlace && !c.byPlace:
			c.byPlace = true
			continue
		}
		if isMore, err := db.hasMoreDue(ctx, c); !isMore {
			return nil, err
		}
		c.look *= lookGrowth
	}
}

// hasMoreDue reports whether more executions may be due than the number that a claim looked
// at.
func (db *DB) hasMoreDue(ctx context.Context, c workClaim) (bool, error) {
	sql := c.countStatement()
	if sql == "" {
		return false, nil
	}
	var n int
	err := db.work.QueryRow(ctx, sql, pgx.StrictNamedArgs{"tenant": [16]byte(c.Tenant), "queue": c.Queue, "now": db.now(),
		"kinds": kindsArg(c.WorkQuery), "look": c.look}).Scan(&n)
	return err == nil && n == c.look, err
}

// claimWork claims once, in the order of the queue. Its result includes executions that
// became dead in the claim. byPlace reports whether executions with a priority wait in the
// queue; if they do and c.byPlace is false, it claims nothing. Once claimWork has a
// connection it does not end with ctx, so that the caller knows which executions were
// claimed and can release them.
func (db *DB) claimWork(ctx context.Context, c workClaim) (list []claimedExecution, byPlace bool, err error) {
	now := db.now()
	until := now.Add(c.Lease)
	sql, args := c.statement(now)
	args["until"], args["max_bytes"], args["lease_seconds"] = until, maxClaimBytes, int(c.Lease/time.Second)
	form := db.form(ctx, c.Tenant, sql)
	conn, err := db.work.Acquire(ctx)
	if err != nil {
		return nil, false, err
	}
	defer conn.Release()
	ctx, cancel := detached(ctx)
	defer cancel()
	rows, err := conn.Query(ctx, form, args)
	if err != nil {
		return nil, false, err
	}
	defer rows.Close()
	for rows.Next() {
		if rows.RawValues()[1] == nil { // nothing was claimed
			err = rows.Scan(append([]any{&byPlace}, make([]any, len(rows.RawValues())-1)...)...)
			break
		}
		x, err := scanClaimed(rows, &byPlace)
		if err != nil {
			return nil, false, err
		}
		x.Lease.Until = until
		list = append(list, x)
	}
	rows.Close()
	slices.SortFunc(list, func(x, y claimedExecution) int {
		return cmp.Or(x.place().Compare(y.place()), slices.Compare(x.ID[:], y.ID[:]))
	})
	return list, byPlace, cmp.Or(err, rows.Err())
}

// scanClaimed scans a row of leaseWorkSQL.
func scanClaimed(row pgx.Rows, byPlace *bool) (x claimedExecution, err error) {
	var payload eventhook.Payload
	x.Execution, err = scanExecution(afterColumn{row, byPlace}, (*string)(&x.statusBefore), &x.dueBefore, &payload.Headers, &payload.Body)
	if payload.Headers != nil {
		x.Payload = &payload
	}
	return x, err
}

// afterColumn is a row whose first column is scanned into first.
type afterColumn struct {
	pgx.Rows
	first any
}

func (r afterColumn) Scan(to ...any) error { return r.Rows.Scan(append([]any{r.first}, to...)...) }

// kindsArg returns the kinds of a query without duplicates, or nil for all kinds.
func kindsArg(q eventhook.WorkQuery) []string {
	return slices.Compact(slices.Sorted(slices.Values(q.Kinds)))
}

// nextWorkSQL reads the first entry of execution_due.
const nextWorkSQL = `
SELECT min(due_at), ` + isPrioritized + ` FROM eventhook.execution
WHERE tenant_id = $1 AND queue = $2 AND due_at IS NOT NULL AND $3::text[] IS NULL`

// isPrioritized reports whether executions with a priority wait in the queue.
const isPrioritized = `EXISTS (SELECT FROM eventhook.execution WHERE tenant_id = $1 AND queue = $2 AND ` + waitsByPriority + `)`

// nextKindsSQL reads the first entry of each kind in execution_kind_due.
const nextKindsSQL = `
SELECT min(d.due_at), ` + isPrioritized + ` FROM unnest($3::text[]) AS k (kind) CROSS JOIN LATERAL (
    SELECT due_at FROM eventhook.execution
    WHERE tenant_id = $1 AND queue = $2 AND kind = k.kind AND due_at IS NOT NULL AND input_size >= 0
    ORDER BY due_at LIMIT 1) d`

// NextWork returns when the next execution that matches q is due, or the zero time if no
// execution matches. Like a claim, it waits for a slot of the tenant.
func (db *DB) NextWork(ctx context.Context, q eventhook.WorkQuery) (time.Time, error) {
	sql := nextWorkSQL
	kinds := kindsArg(q)
	if kinds != nil {
		sql = nextKindsSQL
	}
	var next, early *time.Time
	err := db.withClaimSlot(ctx, q.Tenant, func() error {
		var byPlace bool
		err := db.work.QueryRow(ctx, sql, [16]byte(q.Tenant), q.Queue, kinds).Scan(&next, &byPlace)
		if err != nil || !byPlace {
			return err
		}
		early, err = db.nextEarly(ctx, q)
		return err
	})
	if next == nil || early != nil && early.Before(*next) {
		next = early
	}
	if err != nil || next == nil {
		return time.Time{}, translate("read next work", err)
	}
	return *next, nil
}

// claimSlotShare limits the work connections that claims of one tenant may use at once:
// to 1/claimSlotShare of them.
const claimSlotShare = 4

// changeSlotShare limits the work connections that changes of one tenant's configuration
// may use at once, in the same way. Such changes of all tenants may use half of the
// connections.
const changeSlotShare = 8

// withClaimSlot calls act with one of the tenant's slots for claims. It waits for the
// slot in order, or until ctx ends.
func (db *DB) withClaimSlot(ctx context.Context, tenant eventhook.TenantID, act func() error) error {
	queue := db.claims.Open(tenant)
	defer db.claims.Close(tenant)
	select {
	case <-queue.Slot():
	case <-ctx.Done():
		return ctx.Err()
	}
	defer queue.Release()
	return act()
}
