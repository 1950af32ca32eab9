package pg

import (
	"bytes"
	"context"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/eventhook/eventhook"
)

// StoredEvents returns which of the events are stored; ids must not be empty. Primary key, of the
// partitions between the least and the greatest id.
func (db *DB) StoredEvents(ctx context.Context, ids []eventhook.EventID) (map[eventhook.EventID]bool, error) {
	all := uuids(ids)
	order := func(a, b [16]byte) int { return bytes.Compare(a[:], b[:]) }
	rows, err := db.accept.Query(ctx, `SELECT id FROM eventhook.event WHERE id = ANY($1) AND id BETWEEN $2 AND $3`,
		all, slices.MinFunc(all, order), slices.MaxFunc(all, order))
	if err != nil {
		return nil, translate("find stored events", err)
	}
	stored := make(map[eventhook.EventID]bool, len(ids))
	var id [16]byte
	_, err = pgx.ForEachRow(rows, []any{&id}, func() error {
		stored[eventhook.EventID(id)] = true
		return nil
	})
	return stored, translate("find stored events", err)
}

// ClosedTenants returns which of the tenants are closed. Their data may be deleted already. Primary key.
func (db *DB) ClosedTenants(ctx context.Context, ids []eventhook.TenantID) (map[eventhook.TenantID]bool, error) {
	rows, err := db.accept.Query(ctx, `SELECT tenant_id FROM eventhook.tenant_cleanup WHERE tenant_id = ANY($1)`, uuids(ids))
	if err != nil {
		return nil, translate("find closed tenants", err)
	}
	closed := map[eventhook.TenantID]bool{}
	var id [16]byte
	_, err = pgx.ForEachRow(rows, []any{&id}, func() error {
		closed[eventhook.TenantID(id)] = true
		return nil
	})
	return closed, translate("find closed tenants", err)
}
