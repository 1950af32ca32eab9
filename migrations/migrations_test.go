package migrations_test

import (
	"context"
	"io/fs"
	"path"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/eventhook/eventhook/internal/pgtest"
	"github.com/eventhook/eventhook/migrations"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

func tables(t *testing.T, dsn string) (n int) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	err = conn.QueryRow(t.Context(), `SELECT count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
		WHERE n.nspname = 'eventhook' AND c.relkind IN ('r', 'p') AND c.relname <> 'schema_migrations'`).Scan(&n)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// dropSchema makes the database one that never saw a migration.
func dropSchema(t *testing.T, dsn string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	if _, err := conn.Exec(t.Context(), "DROP SCHEMA eventhook CASCADE"); err != nil {
		t.Fatal(err)
	}
}

func TestUpAndDown(t *testing.T) {
	dsn := pgtest.New(t) // up already
	full := tables(t, dsn)
	if full == 0 {
		t.Fatal("a migrated database has no table")
	}
	for _, step := range []struct {
		name string
		run  func(context.Context, string) error
		want int
	}{
		{"up on a current schema changes nothing", migrations.Up, full},
		{"down leaves nothing", migrations.Down, 0},
		{"down on nothing changes nothing", migrations.Down, 0},
		{"up makes all of it again", migrations.Up, full},
	} {
		if err := step.run(t.Context(), dsn); err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		if got := tables(t, dsn); got != step.want {
			t.Errorf("%s: %d tables, want %d", step.name, got, step.want)
		}
	}
}

func TestInstancesThatStartTogetherMigrateOnce(t *testing.T) {
	dsn := pgtest.New(t)
	full := tables(t, dsn)
	if err := migrations.Down(t.Context(), dsn); err != nil {
		t.Fatal(err)
	}
	dropSchema(t, dsn)
	var all sync.WaitGroup
	for range 5 {
		all.Go(func() {
			if err := migrations.Up(t.Context(), dsn); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if got := tables(t, dsn); got != full {
		t.Errorf("%d tables, want %d", got, full)
	}
	if v, dirty, err := migrations.Version(t.Context(), dsn); err != nil || v == 0 || dirty {
		t.Errorf("version %d, dirty %t, %v; want a clean one", v, dirty, err)
	}
}

func TestEveryMigrationCanBeUndone(t *testing.T) {
	ups, err := fs.Glob(migrations.FS, "*.up.sql")
	if err != nil || len(ups) == 0 {
		t.Fatalf("no migrations: %v", err)
	}
	for _, up := range ups {
		if _, err := fs.Stat(migrations.FS, strings.TrimSuffix(up, ".up.sql")+".down.sql"); err != nil {
			t.Errorf("%s has no way down", path.Base(up))
		}
	}
}

func TestErrorsKeepThePassword(t *testing.T) {
	for _, dsn := range []string{"postgres://u:pass-word@127.0.0.1:1/d", "postgres://u:pass-word@[bad"} {
		err := migrations.Up(t.Context(), dsn)
		if err == nil || strings.Contains(err.Error(), "pass-word") {
			t.Errorf("migrating %q: got %v, want an error without the password", "…", err)
		}
	}
}
