package pg

import "context"

// What PostgreSQL says of a table, or its schema, that is not there.
const (
	codeUndefinedTable = "42P01"
	codeInvalidSchema  = "3F000"
)

// SchemaVersion is the version that the schema is in, 0 without one, and
// whether a migration of it stopped half-way.
func (db *DB) SchemaVersion(ctx context.Context) (version int64, dirty bool, err error) {
	err = db.work.QueryRow(ctx, `SELECT version, dirty FROM eventhook.schema_migrations`).Scan(&version, &dirty)
	if hasCode(err, codeUndefinedTable, codeInvalidSchema) {
		return 0, false, nil
	}
	return version, dirty, translate("read the schema's version", err)
}
