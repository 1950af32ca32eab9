package pg

import (
	"context"

	"github.com/eventhook/eventhook"
)

// Cancel ends an execution that has not ended; its worker loses the lease. If the execution
// has ended, the error is of KindConflict.
func (db *DB) Cancel(ctx context.Context, tenant eventhook.TenantID, id eventhook.ExecutionID) (eventhook.Execution, error) {
	return db.transition(ctx, tenant, id, "an execution that has ended cannot be cancelled",
		`status = 'cancelled', due_at = NULL, completed_at = $3, lease_token = lease_token + 1`,
		`status NOT IN ('completed', 'dead', 'cancelled')`)
}

// Retry makes a failed, dead or cancelled execution due, with all its attempts left. If the
// execution has another status, the error is of KindConflict. A workflow keeps its state and the
// promises that it awaited, which may still be pending.
func (db *DB) Retry(ctx context.Context, tenant eventhook.TenantID, id eventhook.ExecutionID) (eventhook.Execution, error) {
	x, err := db.transition(ctx, tenant, id, "only a failed, dead or cancelled execution can be retried",
		`status = 'pending', due_at = $3, completed_at = NULL, attempt = 0, lease_token = lease_token + 1`,
		`status IN ('failed', 'dead', 'cancelled')`)
	if err == nil {
		db.hub.wake(workTopic(tenant, x.Queue))
	}
	return x, err
}

// transition updates an execution if its status satisfies where. Otherwise it returns
// KindConflict with the message refusal. In set, $3 is now.
func (db *DB) transition(ctx context.Context, tenant eventhook.TenantID, id eventhook.ExecutionID, refusal, set, where string) (eventhook.Execution, error) {
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
