package pg

import (
	"context"
	"time"

	"github.com/eventhook/eventhook"
)

// NextWork tells when the next execution that q wants is due; zero if none is
// owed. Index execution_due.
func (db *DB) NextWork(ctx context.Context, q eventhook.WorkQuery) (time.Time, error) {
	var next *time.Time
	var kinds any
	if len(q.Kinds) > 0 {
		kinds = q.Kinds
	}
	err := db.work.QueryRow(ctx, `SELECT min(due_at) FROM eventhook.execution WHERE tenant_id = $1 AND queue = $2 AND due_at IS NOT NULL
		AND ($3::text[] IS NULL OR kind = ANY($3))`, [16]byte(q.Tenant), q.Queue, kinds).Scan(&next)
	if err != nil || next == nil {
		return time.Time{}, translate("read next work", err)
	}
	return *next, nil
}
