package pg

import (
	"context"
	"slices"
	"time"

	"github.com/eventhook/eventhook"
)

// claimed is an execution, and what it was before its claim.
type claimed struct {
	eventhook.Execution
	was    eventhook.ExecutionStatus
	wasDue time.Time
}

func executionsOf(list []claimed) []eventhook.Execution {
	var executions []eventhook.Execution
	for _, x := range list {
		executions = append(executions, x.Execution)
	}
	return executions
}

// outliving ends a few seconds after it was made, whenever ctx does.
func outliving(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
}

// giveBackSQL takes claims back: their executions are what they were, due when
// they were, and the attempts that began with the claims were none. The tokens
// stay used. The ids are compared twice for the reason that completeSQL has.
// Primary key.
const giveBackSQL = `
UPDATE eventhook.execution e
SET status = u.status, due_at = u.due_at, attempt = e.attempt - CASE u.status WHEN 'suspended' THEN 0 ELSE 1 END
FROM unnest($1::uuid[], $2::int8[], $3::text[], $4::timestamptz[]) AS u (id, lease_token, status, due_at)
WHERE e.id = ANY($1) AND e.id = u.id AND e.lease_token = u.lease_token AND e.status = 'running'`

// giveBack gives others what was claimed for somebody who is gone, also when
// ctx has ended. If it fails, the leases run out.
func (db *DB) giveBack(ctx context.Context, q eventhook.WorkQuery, list []claimed) error {
	if len(list) == 0 {
		return nil
	}
	slices.SortFunc(list, func(x, y claimed) int { return slices.Compare(x.ID[:], y.ID[:]) }) // as all lock them
	ids, tokens, states, due := make([][16]byte, len(list)), make([]int64, len(list)), make([]string, len(list)), make([]time.Time, len(list))
	for i, x := range list {
		ids[i], tokens[i], states[i], due[i] = x.ID, x.Lease.Token, string(x.was), x.wasDue
	}
	ctx, cancel := outliving(ctx)
	defer cancel()
	if _, err := db.work.Exec(ctx, giveBackSQL, ids, tokens, states, due); err != nil {
		return translate("give work back", err)
	}
	db.hub.wake(workTopic(q.Tenant, q.Queue))
	return nil
}
