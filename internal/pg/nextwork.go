package pg

import (
	"context"
	"time"

	"github.com/eventhook/eventhook"
)

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
	err := db.inShare(ctx, q.Tenant, func() error {
		return db.work.QueryRow(ctx, sql, [16]byte(q.Tenant), q.Queue, kinds).Scan(&next)
	})
	if err != nil || next == nil {
		return time.Time{}, translate("read next work", err)
	}
	return *next, nil
}

// claimShare is the part of the work connections that claims of one tenant may
// hold at once: one in so many.
const claimShare = 4

// changeShare is that part for changes of one tenant's configuration. All such
// changes may hold half of the connections.
const changeShare = 8

// inShare does something with a connection of those that the tenant's claims
// may hold; before that it waits for its turn, or for ctx to end.
func (db *DB) inShare(ctx context.Context, tenant eventhook.TenantID, act func() error) error {
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
