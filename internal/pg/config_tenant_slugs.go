package pg

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/eventhook/eventhook"
)

// TenantSlugs returns the slugs of tenants. Tenants that do not exist are missing. Primary key.
func (db *DB) TenantSlugs(ctx context.Context, ids []eventhook.TenantID) (map[eventhook.TenantID]string, error) {
	const act = "read the slugs of tenants"
	rows, err := db.lists.Query(ctx, `SELECT id, slug FROM eventhook.tenant WHERE id = ANY($1)`, uuids(ids))
	if err != nil {
		return nil, translate(act, err)
	}
	slugs := map[eventhook.TenantID]string{}
	var id eventhook.TenantID
	var slug string
	_, err = pgx.ForEachRow(rows, []any{(*[16]byte)(&id), &slug}, func() error {
		slugs[id] = slug
		return nil
	})
	return slugs, translate(act, err)
}
