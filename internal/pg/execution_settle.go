package pg

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/eventhook/eventhook"
)

// completeSQL ends executions whose leases are current. It locks them in the order of their
// ids, like every statement that locks several executions. It compares the ids twice, and
// the tenant in an expression that no index supports: in a small table the planner would
// otherwise read all executions of the tenant, and keep that plan while the table grows.
// Primary key.
const completeSQL = `
WITH changed AS (
UPDATE eventhook.execution e
SET status = 'completed', due_at = NULL, completed_at = $5, output = u.output::json, error = NULL
FROM unnest($2::uuid[], $3::int8[], $4::text[]) AS u (id, lease_token, output)
WHERE e.id = ANY($2) AND e.id = u.id AND (e.tenant_id = $1) IS TRUE AND e.lease_token = u.lease_token AND e.status = 'running'
RETURNING ` + executionColumns + `
)`

var (
	logCompletedSQL = logExecutionsSQL("changed", "'completed'", "$5")
	completeOneSQL  = newChangeSQL(completeSQL, logCompletedSQL, `
SELECT * FROM changed`)
	completeManySQL = newChangeSQL(completeSQL, logCompletedSQL, `
SELECT id, lease_token FROM changed`)
)

// completeArgs returns the parameters of completeSQL. list must be sorted by id.
func (db *DB) completeArgs(tenant eventhook.TenantID, list []eventhook.Execution) []any {
	ids, tokens, outputs := make([][16]byte, len(list)), make([]int64, len(list)), make([]*string, len(list))
	for i, x := range list {
		ids[i], tokens[i], outputs[i] = x.ID, x.Lease.Token, jsonArg(x.Output)
	}
	return []any{[16]byte(tenant), ids, tokens, outputs, db.now()}
}

// Complete ends an execution with its Output and returns the completed execution.
func (db *DB) Complete(ctx context.Context, x eventhook.Execution) (eventhook.Execution, error) {
	rows, err := db.work.Query(ctx, db.form(ctx, x.TenantID, completeOneSQL), db.completeArgs(x.TenantID, []eventhook.Execution{x})...)
	if err != nil {
		return eventhook.Execution{}, translate("complete execution", err)
	}
	done, err := pgx.CollectExactlyOneRow(rows, oneExecution)
	if errors.Is(err, pgx.ErrNoRows) {
		return done, db.leaseError(ctx, x)
	}
	return done, translate("complete execution", err)
}

// CompleteAll ends executions of a tenant, each with its Output. The result has an error
// for each execution in the same order: nil, ErrLeaseLost or KindNotFound. The executions
// do not affect each other. If two have the same id and token, the second gets
// ErrLeaseLost.
// CompleteAll is one statement, and one more if not all were completed.
func (db *DB) CompleteAll(ctx context.Context, tenant eventhook.TenantID, list []eventhook.Execution) ([]error, error) {
	type leaseKey struct {
		id    eventhook.ExecutionID
		token int64
	}
	first := make(map[leaseKey]int, len(list))
	batch := make([]eventhook.Execution, 0, len(list))
	for i, x := range list {
		k := leaseKey{x.ID, x.Lease.Token}
		if _, isDuplicate := first[k]; !isDuplicate {
			first[k] = i
			batch = append(batch, x)
		}
	}
	slices.SortFunc(batch, func(x, y eventhook.Execution) int { return slices.Compare(x.ID[:], y.ID[:]) })
	done, err := db.readLeaseTokens(ctx, "complete executions", db.form(ctx, tenant, completeManySQL), db.completeArgs(tenant, batch)...)
	if err != nil {
		return nil, err
	}
	answers := make([]error, len(list))
	if len(done) == len(list) {
		return answers, nil
	}
	existing, err := db.readLeaseTokens(ctx, "read executions", existingExecutionsSQL, [16]byte(tenant), executionIDs(batch))
	if err != nil {
		return nil, err
	}
	for i, x := range list {
		k := leaseKey{x.ID, x.Lease.Token}
		if _, exists := existing[x.ID]; !exists {
			answers[i] = eventhook.NotFound("execution")
		} else if token, isDone := done[x.ID]; !isDone || token != k.token || first[k] != i {
			answers[i] = eventhook.ErrLeaseLost
		}
	}
	return answers, nil
}

// existingExecutionsSQL returns which of the executions a tenant has. Primary key.
const existingExecutionsSQL = `SELECT id, lease_token FROM eventhook.execution WHERE id = ANY($2::uuid[]) AND (tenant_id = $1) IS TRUE`

// readLeaseTokens returns the lease tokens of the executions that a statement returns.
func (db *DB) readLeaseTokens(ctx context.Context, act, sql string, args ...any) (map[eventhook.ExecutionID]int64, error) {
	rows, err := db.work.Query(ctx, sql, args...)
	if err != nil {
		return nil, translate(act, err)
	}
	tokens := map[eventhook.ExecutionID]int64{}
	var id eventhook.ExecutionID
	var token int64
	_, err = pgx.ForEachRow(rows, []any{(*[16]byte)(&id), &token}, func() error {
		tokens[id] = token
		return nil
	})
	return tokens, translate(act, err)
}

func executionIDs(list []eventhook.Execution) [][16]byte {
	ids := make([][16]byte, len(list))
	for i, x := range list {
		ids[i] = x.ID
	}
	return ids
}

// claimedExecution is an execution with its status and due time before the claim.
type claimedExecution struct {
	eventhook.Execution
	statusBefore eventhook.ExecutionStatus
	dueBefore    time.Time
}

// place returns the execution's place in the order of claims, before the claim.
func (x claimedExecution) place() time.Time { return x.dueBefore.Add(-ahead(x.Priority)) }

func executionsIn(list []claimedExecution) []eventhook.Execution {
	var executions []eventhook.Execution
	for _, x := range list {
		executions = append(executions, x.Execution)
	}
	return executions
}

// detached returns a context that ends after five seconds, regardless of ctx.
func detached(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
}

// releaseClaimsSQL undoes claims: it restores the status, the due time and the attempt
// of their executions. The lease tokens stay used. It compares the ids twice for the
// same reason as completeSQL. Primary key.
const releaseClaimsSQL = `
UPDATE eventhook.execution e
SET status = u.status, due_at = u.due_at, attempt = e.attempt - CASE u.status WHEN 'suspended' THEN 0 ELSE 1 END
FROM unnest($1::uuid[], $2::int8[], $3::text[], $4::timestamptz[]) AS u (id, lease_token, status, due_at)
WHERE e.id = ANY($1) AND e.id = u.id AND e.lease_token = u.lease_token AND e.status = 'running'`

// releaseClaims releases executions that ClaimWork cannot return to its worker. It does so
// even if ctx has ended. If it fails, the executions are due again when their leases
// end.
func (db *DB) releaseClaims(ctx context.Context, q eventhook.WorkQuery, list []claimedExecution) error {
	if len(list) == 0 {
		return nil
	}
	slices.SortFunc(list, func(x, y claimedExecution) int { return slices.Compare(x.ID[:], y.ID[:]) }) // the order of completeSQL
	ids, tokens, states, due := make([][16]byte, len(list)), make([]int64, len(list)), make([]string, len(list)), make([]time.Time, len(list))
	for i, x := range list {
		ids[i], tokens[i], states[i], due[i] = x.ID, x.Lease.Token, string(x.statusBefore), x.dueBefore
	}
	ctx, cancel := detached(ctx)
	defer cancel()
	if _, err := db.work.Exec(ctx, releaseClaimsSQL, ids, tokens, states, due); err != nil {
		return translate("release executions", err)
	}
	db.hub.wake(workTopic(q.Tenant, q.Queue))
	return nil
}

// leaseError returns ErrLeaseLost, or KindNotFound if the execution does not exist.
func (db *DB) leaseError(ctx context.Context, x eventhook.Execution) error {
	if _, err := db.Execution(ctx, x.TenantID, x.ID); err != nil {
		return err
	}
	return eventhook.ErrLeaseLost
}

// heartbeatSQL extends a lease to a given moment or, if that is NULL, to now plus the
// length of the claim's lease, but never shortens it. Primary key.
const heartbeatSQL = `
UPDATE eventhook.execution
SET due_at = coalesce($5::timestamptz, greatest(due_at, $4::timestamptz + lease_seconds * interval '1 second'))
WHERE id = $1 AND tenant_id = $2 AND lease_token = $3 AND status = 'running'
RETURNING due_at`

// Heartbeat sets the end of the lease to now + lease and returns it. A lease of 0 means
// the length with which the execution was claimed, and never shortens the lease. Like
// Complete, Fail and Suspend, Heartbeat writes nothing and returns ErrLeaseLost if the
// lease token is not current, and KindNotFound if the tenant has no such execution.
func (db *DB) Heartbeat(ctx context.Context, x eventhook.Execution, lease time.Duration) (until time.Time, err error) {
	now := db.now()
	var end *time.Time
	if lease > 0 {
		end = new(now.Add(lease))
	}
	err = db.work.QueryRow(ctx, heartbeatSQL, [16]byte(x.ID), [16]byte(x.TenantID), x.Lease.Token, now, end).Scan(&until)
	if errors.Is(err, pgx.ErrNoRows) {
		return until, db.leaseError(ctx, x)
	}
	return until, translate("extend lease", err)
}

// Fail ends an attempt. A retryable failure is retried after the delay of policy while
// attempts are left; otherwise the execution becomes dead. Fail returns the time of the
// next attempt, zero if there is no further attempt.
func (db *DB) Fail(ctx context.Context, x eventhook.Execution, message string, retryable bool, policy eventhook.RetryPolicy) (next time.Time, err error) {
	current, err := db.Execution(ctx, x.TenantID, x.ID)
	if err != nil {
		return next, err
	}
	now := db.now()
	policy.MaxRetries = new(current.MaxAttempts - 1)
	args := pgx.StrictNamedArgs{"id": [16]byte(x.ID), "tenant": [16]byte(x.TenantID), "token": x.Lease.Token, "now": now,
		"error":  textArg(message),
		"status": string(eventhook.ExecutionDead), "due_at": (*time.Time)(nil), "completed_at": &now}
	if delay, more := policy.Delay(current.Attempt); retryable && more {
		next = now.Add(delay)
		args["status"], args["due_at"], args["completed_at"] = string(eventhook.ExecutionFailed),
			new(next.Add(behind(current.Priority))), (*time.Time)(nil)
	}
	var failed int
	if err := db.work.QueryRow(ctx, db.form(ctx, x.TenantID, failSQL), args).Scan(&failed); err != nil {
		return time.Time{}, translate("fail execution", err)
	}
	if failed == 0 {
		return time.Time{}, db.leaseError(ctx, x)
	}
	return next, nil
}

// failSQL ends an attempt. A lease whose time is over is not lost until another worker
// claims the execution or it has ended, so a late result still counts. Primary key.
var failSQL = newChangeSQL(`
WITH changed AS (
    UPDATE eventhook.execution e SET status = @status, due_at = @due_at::timestamptz, completed_at = @completed_at::timestamptz, error = @error
    WHERE id = @id AND tenant_id = @tenant AND lease_token = @token AND status = 'running'
    RETURNING `+executionColumns+`
)`, logExecutionsSQL("changed", "status", "@now"), `
SELECT count(*) FROM changed WHERE @now::timestamptz IS NOT NULL`)
