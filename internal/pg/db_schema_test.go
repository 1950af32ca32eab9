package pg

import (
	"testing"

	"github.com/eventhook/eventhook/internal/clocktest"
	"github.com/eventhook/eventhook/internal/pgtest"
	"github.com/eventhook/eventhook/migrations"
)

func TestSchemaVersion(t *testing.T) {
	f := &fixture{TB: t, dsn: pgtest.New(t), clock: clocktest.New(noon)}
	f.db = f.open()
	newest, err := migrations.Newest()
	f.must(err)
	for _, c := range []struct {
		claim, change string
		want          int64
		dirty         bool
	}{
		{"a migrated database", `SELECT`, newest, false},
		{"a migration that failed", `UPDATE eventhook.schema_migrations SET dirty = true`, newest, true},
		{"a schema without the migrations table", `DROP TABLE eventhook.schema_migrations`, 0, false},
		{"a database without the schema", `DROP SCHEMA eventhook CASCADE`, 0, false},
	} {
		f.exec(c.change)
		got, dirty, err := f.db.SchemaVersion(t.Context())
		f.must(err)
		same(t, c.claim, got, c.want)
		same(t, c.claim+", dirty", dirty, c.dirty)
	}
	f.db.Close()
	if _, _, err = f.db.SchemaVersion(t.Context()); err == nil {
		t.Error("a database that is down: got no error")
	}
}
