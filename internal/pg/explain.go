package pg

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/eventhook/eventhook"
)

// findKeySQL reads the primary key, of hashes first, as acceptSignedSQL does.
const findKeySQL = `
SELECT made FROM eventhook.idempotency_key
WHERE tenant_id = $1 AND (scope, key) IN (($2, $3), ($2 || '` + signedScope + `', $4)) AND expires_at > $5
ORDER BY scope DESC LIMIT 1`

// FindKey returns the event that a source has accepted under a key or under a
// hash of signed bytes, within the key's time, and whether there is one: then
// the next event with this key or hash would be its duplicate. Either may be
// empty. It claims nothing.
func (db *DB) FindKey(ctx context.Context, tenant eventhook.TenantID, source eventhook.SourceID, key, signedHash string) (id eventhook.EventID, found bool, err error) {
	err = db.work.QueryRow(ctx, findKeySQL, [16]byte(tenant), source.String(), key, signedHash, db.now()).Scan((*[16]byte)(&id))
	if errors.Is(err, pgx.ErrNoRows) {
		return id, false, nil
	}
	return id, err == nil, translate("find key", err)
}

// allRoutesSQL reads the index on the source.
const allRoutesSQL = `SELECT ` + routeColumns + ` FROM eventhook.route
WHERE source_id = $1 ORDER BY priority DESC, id`

// AllRoutes returns the routes of a source in their order of evaluation, those
// that are disabled too; none if the source is gone.
func (db *DB) AllRoutes(ctx context.Context, source eventhook.SourceID) ([]eventhook.Route, error) {
	rows, err := db.work.Query(ctx, allRoutesSQL, [16]byte(source))
	if err != nil {
		return nil, translate("list routes", err)
	}
	list, err := pgx.CollectRows(rows, db.scanRoute)
	return list, translate("list routes", err)
}
