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
	return collectSlugs(act, rows)
}

// NewestTenantSlugs returns the slugs of the newest tenants, up to a limit. Primary key, backwards.
func (db *DB) NewestTenantSlugs(ctx context.Context, limit int) (map[eventhook.TenantID]string, error) {
	const act = "read the slugs of the newest tenants"
	rows, err := db.lists.Query(ctx, `SELECT id, slug FROM eventhook.tenant ORDER BY id DESC LIMIT $1`, limit)
	if err != nil {
		return nil, translate(act, err)
	}
	return collectSlugs(act, rows)
}

func collectSlugs(act string, rows pgx.Rows) (map[eventhook.TenantID]string, error) {
	slugs := map[eventhook.TenantID]string{}
	var id eventhook.TenantID
	var slug string
	_, err := pgx.ForEachRow(rows, []any{(*[16]byte)(&id), &slug}, func() error {
		slugs[id] = slug
		return nil
	})
	return slugs, translate(act, err)
}

// unknownTenantsSQL finds the slugs that no tenant has. Index of slugs.
const unknownTenantsSQL = `
SELECT DISTINCT u.slug FROM unnest($1::text[]) AS u (slug)
WHERE NOT EXISTS (SELECT FROM eventhook.tenant t WHERE t.slug = u.slug)`

// UnknownTenants returns the slugs that no tenant has.
func (db *DB) UnknownTenants(ctx context.Context, slugs []string) (unknown []string, err error) {
	const act = "find unknown tenants"
	rows, err := db.lists.Query(ctx, unknownTenantsSQL, slugs)
	if err != nil {
		return nil, translate(act, err)
	}
	unknown, err = pgx.CollectRows(rows, pgx.RowTo[string])
	return unknown, translate(act, err)
}
