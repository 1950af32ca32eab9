package pg

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/eventhook/eventhook"
)

// An execution of priority p has its place in the queue at due_at - p minutes (ADR 25).
//
// If p is positive, due_at is the time at which the execution is due, and claims order it
// by an earlier time. If p is negative, claims would need another index to find the
// executions that come before it. So due_at of a waiting execution is its place, which is
// later, and claims also look for such executions before their due_at.
//
// Only the executions of these statements have entries in index execution_priority. A
// queue without them is claimed by the statements of execution_claim.go.

// waitsByPriority selects the executions that wait and have a priority. It is the condition
// of index execution_priority.
const waitsByPriority = `priority <> 0 AND status IN ('pending', 'failed') AND due_at IS NOT NULL AND input_size >= 0`

// behindByPriority is how much later than the time at which an execution is due its due_at
// is while it waits.
const behindByPriority = `greatest(-priority, 0) * interval '1 minute'`

// behind is behindByPriority in Go.
func behind(priority int) time.Duration {
	return time.Duration(max(-priority, 0)) * eventhook.PriorityStep
}

// ahead is how much earlier than its due_at the place of an execution is.
func ahead(priority int) time.Duration {
	return time.Duration(max(priority, 0)) * eventhook.PriorityStep
}

// priorityGateSQL reports whether executions with a priority wait in the queue. Index
// execution_priority.
const priorityGateSQL = `
WITH priority_gate AS MATERIALIZED (
    SELECT EXISTS (SELECT FROM eventhook.execution WHERE tenant_id = @tenant AND queue = @queue AND ` + waitsByPriority + `) AS is_open
)`

// prioritizedKindsSQL skips in index execution_priority from one pair of kind and priority
// to the next. A queue has few pairs. Executions of pairs after the first 1000 are claimed
// at their due_at.
const prioritizedKindsSQL = `
WITH RECURSIVE next_pair AS (
    (SELECT kind, priority FROM eventhook.execution WHERE tenant_id = @tenant AND queue = @queue AND ` + waitsByPriority + `
     ORDER BY kind, priority LIMIT 1)
    UNION ALL
    SELECT n.* FROM next_pair s CROSS JOIN LATERAL (
        SELECT kind, priority FROM eventhook.execution
        WHERE tenant_id = @tenant AND queue = @queue AND ` + waitsByPriority + ` AND (kind, priority) > (s.kind, s.priority)
        ORDER BY kind, priority LIMIT 1) n
), pair AS MATERIALIZED (
    SELECT kind, priority FROM (SELECT kind, priority FROM next_pair LIMIT 1000) p WHERE @kinds::text[] IS NULL OR kind = ANY(@kinds)
)`

// dueByPlaceSQL finds the first @look due executions in the order of their places: those
// that are due by due_at, and the first of each pair. Primary key afterwards.
const (
	dueByPlaceSQL = prioritizedKindsSQL + `, first AS MATERIALIZED (
    SELECT id, min(place) AS place FROM (
        (SELECT id, due_at AS place FROM eventhook.execution
         WHERE tenant_id = @tenant AND queue = @queue AND due_at <= @now ORDER BY due_at LIMIT @look::int)` + orPrioritized
	dueKindsByPlaceSQL = prioritizedKindsSQL + `, first AS MATERIALIZED (
    SELECT id, min(place) AS place FROM (
        SELECT d.id, d.due_at AS place FROM unnest(@kinds::text[]) AS k (kind) CROSS JOIN LATERAL (
            SELECT id, due_at FROM eventhook.execution
            WHERE tenant_id = @tenant AND queue = @queue AND kind = k.kind AND due_at <= @now AND input_size >= 0
            ORDER BY due_at LIMIT @look::int) d` + orPrioritized

	orPrioritized = `
        UNION ALL
        SELECT d.id, d.due_at - greatest(s.priority, 0) * interval '1 minute' FROM pair s CROSS JOIN LATERAL (
            SELECT id, due_at FROM eventhook.execution
            WHERE tenant_id = @tenant AND queue = @queue AND kind = s.kind AND priority = s.priority AND ` + waitsByPriority + `
              AND due_at <= @now::timestamptz + greatest(-s.priority, 0) * interval '1 minute'
            ORDER BY due_at LIMIT @look::int) d
    ) due GROUP BY id ORDER BY 2, 1 LIMIT @look::int
)`

	// lockByPlaceSQL locks up to @max of these executions and skips locked ones.
	lockByPlaceSQL = `, priority_gate AS (
    SELECT true AS is_open
), due AS MATERIALIZED (
    SELECT e.id, e.status, e.due_at, e.attempt, e.max_attempts, e.input_size
    FROM first f JOIN eventhook.execution e ON e.id = f.id
    WHERE e.due_at <= @now OR e.status IN ('pending', 'failed') AND e.due_at <= @now::timestamptz + greatest(-e.priority, 0) * interval '1 minute'
    ORDER BY f.place, f.id LIMIT @max FOR UPDATE OF e SKIP LOCKED
)`

	countFirst = `
SELECT count(*) FROM first`
)

// The statements of a queue in which executions with a priority wait.
var (
	claimByPlaceSQL      = newChangeSQL(dueByPlaceSQL+lockByPlaceSQL+leaseWorkSQL, logClaimedSQL, readClaimedSQL)
	claimKindsByPlaceSQL = newChangeSQL(dueKindsByPlaceSQL+lockByPlaceSQL+leaseWorkSQL, logClaimedSQL, readClaimedSQL)
)

const (
	countByPlaceSQL      = dueByPlaceSQL + countFirst
	countKindsByPlaceSQL = dueKindsByPlaceSQL + countFirst
)

// nextEarlySQL reads when the next execution with a negative priority is due.
const nextEarlySQL = prioritizedKindsSQL + `
SELECT min(d.due_at + s.priority * interval '1 minute') FROM pair s CROSS JOIN LATERAL (
    SELECT due_at FROM eventhook.execution
    WHERE tenant_id = @tenant AND queue = @queue AND kind = s.kind AND priority = s.priority AND ` + waitsByPriority + `
    ORDER BY due_at LIMIT 1) d
WHERE s.priority < 0`

// workClaim is one step of ClaimWork.
type workClaim struct {
	eventhook.WorkQuery
	look    int  // executions to look at
	byPlace bool // executions with a priority wait in the queue
}

// statement returns the SQL that claims, and its parameters except those of the lease.
func (c workClaim) statement(now time.Time) (changeSQL, pgx.StrictNamedArgs) {
	args := pgx.StrictNamedArgs{"tenant": [16]byte(c.Tenant), "queue": c.Queue, "now": now, "max": c.Max}
	kinds := kindsArg(c.WorkQuery)
	switch {
	case c.byPlace:
		args["kinds"], args["look"] = kinds, c.look
		if kinds == nil {
			return claimByPlaceSQL, args
		}
		return claimKindsByPlaceSQL, args
	case kinds == nil:
		return claimWorkSQL, args
	}
	args["kinds"], args["look"] = kinds, c.look
	return claimKindsSQL, args
}

// countStatement returns the SQL that counts the executions at which the claim looked, ""
// if it looked at all that are due.
func (c workClaim) countStatement() string {
	kinds := kindsArg(c.WorkQuery)
	switch {
	case !c.byPlace && kinds == nil:
		return ""
	case !c.byPlace:
		return countOldestSQL
	case kinds == nil:
		return countByPlaceSQL
	}
	return countKindsByPlaceSQL
}

// nextEarly returns when the next execution of negative priority is due, nil if there is
// none.
func (db *DB) nextEarly(ctx context.Context, q eventhook.WorkQuery) (next *time.Time, err error) {
	err = db.work.QueryRow(ctx, nextEarlySQL, pgx.StrictNamedArgs{"tenant": [16]byte(q.Tenant), "queue": q.Queue,
		"kinds": kindsArg(q)}).Scan(&next)
	return next, err
}
