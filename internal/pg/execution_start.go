package pg

import (
	"cmp"
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/eventhook/eventhook"
)

// startWorkSQL claims the idempotency key, if there is one, and inserts the execution if
// the key stands for it. It returns the id that the key stands for, and no row if the
// tenant is not active. Primary keys.
const startWorkSQL = `
WITH active AS MATERIALIZED (
    SELECT id FROM eventhook.tenant WHERE id = @tenant AND status = 'active'
), claimed AS (
    INSERT INTO eventhook.idempotency_key AS k (tenant_id, scope, key, made, expires_at)
    SELECT id, @scope, @key::text, @id::uuid, @expires_at FROM active WHERE @key::text IS NOT NULL
    ` + onKeyTaken + `
    RETURNING made
), started AS (
    INSERT INTO eventhook.execution (id, tenant_id, due_at, created_at, max_attempts, input_size, priority, type, status, queue, kind,
        idempotency_key, trace_id, trace_flags, input)
    SELECT @id::uuid, id, @due_at::timestamptz + greatest(-@priority::int2, 0) * interval '1 minute', @now, @max_attempts, @input_size, @priority::int2,
        @type, 'pending', @queue, @kind, @key, @trace_id, @trace_flags, @input::json
    FROM active WHERE NOT EXISTS (SELECT FROM claimed WHERE made <> @id::uuid)
)
SELECT coalesce((SELECT made FROM claimed), @id::uuid) FROM active`

// storedFlags returns the flags of an execution for its row, in which NULL stands for a sampled
// trace.
func storedFlags(x *eventhook.Execution) string {
	if x.TraceFlags == "01" {
		return ""
	}
	return x.TraceFlags
}

var (
	errNotActive = &eventhook.Error{Kind: eventhook.KindConflict, Message: "The tenant is not active and starts no work."}
	errKeyInUse  = &eventhook.Error{Kind: eventhook.KindConflict,
		Message: "The idempotency key belongs to work that was deleted after its retention. Use another key."}
)

// StartWork stores an execution that no event created, and returns it. It sets the id. The
// execution is due at x.DueAt, and now if x.DueAt is nil or has passed. An idempotency key is unique
// with those of route targets of the same type and kind. If it is taken, StartWork changes
// nothing and returns the execution that the key stands for, whatever its input, and
// started is false. The error is of KindConflict if the tenant is not active.
func (db *DB) StartWork(ctx context.Context, x eventhook.Execution) (_ eventhook.Execution, started bool, err error) {
	now := db.now()
	x.ID, x.Status, x.CreatedAt = eventhook.NewID[eventhook.Execution](now), eventhook.ExecutionPending, now
	if x.DueAt == nil || x.DueAt.Before(now) {
		x.DueAt = &now
	}
	var id eventhook.ExecutionID
	err = db.work.QueryRow(ctx, startWorkSQL, pgx.StrictNamedArgs{"id": [16]byte(x.ID), "tenant": [16]byte(x.TenantID), "now": now,
		"due_at": *x.DueAt,
		"scope":  keyScope(&x), "key": textArg(x.IdempotencyKey), "expires_at": now.Add(cmp.Or(x.KeyTTL, eventhook.TargetKeyTTL)),
		"type": string(x.Type), "kind": x.Kind, "queue": x.Queue, "max_attempts": x.MaxAttempts, "priority": x.Priority,
		"trace_id": textArg(x.TraceID), "trace_flags": textArg(storedFlags(&x)), "input": jsonArg(x.Input), "input_size": len(x.Input)}).Scan((*[16]byte)(&id))
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return eventhook.Execution{}, false, errNotActive
	case err != nil:
		return eventhook.Execution{}, false, translate("start work", err)
	case id == x.ID:
		db.hub.wake(workTopic(x.TenantID, x.Queue))
		return x, true, nil
	}
	existing, err := db.Execution(ctx, x.TenantID, id)
	if eventhook.KindOf(err) == eventhook.KindNotFound {
		err = errKeyInUse
	}
	return existing, false, err
}
