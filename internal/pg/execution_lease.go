package pg

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/eventhook/eventhook"
)

// updateLeased updates an execution whose lease is current. It returns ErrLeaseLost if
// the lease was lost, and KindNotFound if there is no such execution. A lease whose
// time is over is not lost until another worker claims the execution or it has ended, so
// a late result still counts.
func (db *DB) updateLeased(ctx context.Context, act string, x eventhook.Execution, set string, args ...any) error {
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
	if delay, more := policy.Delay(current.Attempt); retryable && more {
		next = now.Add(delay)
		err := db.updateLeased(ctx, "fail execution", x, `status = 'failed', due_at = $4, error = $5`, next, textArg(message))
		if err != nil {
			return time.Time{}, err
		}
		return next, nil
	}
	return time.Time{}, db.updateLeased(ctx, "fail execution", x,
		`status = 'dead', due_at = NULL, completed_at = $4, error = $5`, now, textArg(message))
}
