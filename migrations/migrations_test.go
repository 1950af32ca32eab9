package migrations_test

import (
	"context"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/pg"
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

// dropSchema resets the database to its state before any migration.
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
	dsn := pgtest.New(t) // migrated
	full := tables(t, dsn)
	if full == 0 {
		t.Fatal("a migrated database has no tables")
	}
	for _, step := range []struct {
		name string
		run  func(context.Context, string) error
		want int
	}{
		{"up on a current schema changes nothing", migrations.Up, full},
		{"down leaves nothing", migrations.Down, 0},
		{"down on nothing changes nothing", migrations.Down, 0},
		{"up creates all tables again", migrations.Up, full},
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
		t.Errorf("version %d, dirty %t, %v; want a version above 0 that is not dirty", v, dirty, err)
	}
}

func TestEveryMigrationCanBeUndone(t *testing.T) {
	ups, err := fs.Glob(migrations.FS, "*.up.sql")
	if err != nil || len(ups) == 0 {
		t.Fatalf("no migrations: %v", err)
	}
	for _, up := range ups {
		if _, err := fs.Stat(migrations.FS, strings.TrimSuffix(up, ".up.sql")+".down.sql"); err != nil {
			t.Errorf("%s has no .down.sql", path.Base(up))
		}
	}
}

func TestErrorsDoNotContainThePassword(t *testing.T) {
	for _, dsn := range []string{"postgres://u:pass-word@127.0.0.1:1/d", "postgres://u:pass-word@[bad"} {
		err := migrations.Up(t.Context(), dsn)
		if err == nil || strings.Contains(err.Error(), "pass-word") {
			t.Errorf("migrating %q: got %v, want an error without the password", "…", err)
		}
	}
}

// The database URL is a setting, so the error is the caller's.
func TestAURLThatCannotBeParsedIsInvalid(t *testing.T) {
	_, wanted := pg.Open(t.Context(), "postgres://h:99999/d", pg.Options{})
	for name, act := range map[string]func(context.Context, string) error{
		"Up": migrations.Up, "Down": migrations.Down,
		"Version": func(ctx context.Context, dsn string) error { _, _, err := migrations.Version(ctx, dsn); return err },
	} {
		err := act(t.Context(), "postgres://h:99999/d")
		if eventhook.KindOf(err) != eventhook.KindInvalid || err.Error() != wanted.Error() {
			t.Errorf("%s: got %v of kind %q, want %v of kind invalid", name, err, eventhook.KindOf(err), wanted)
		}
	}
}

// migrateTo migrates the database to a version.
func migrateTo(t *testing.T, dsn string, version int) {
	t.Helper()
	if err := migrations.Down(t.Context(), dsn); err != nil {
		t.Fatal(err)
	}
	conn := connect(t, dsn)
	for v := 1; v <= version; v++ {
		names, err := fs.Glob(migrations.FS, fmt.Sprintf("%06d_*.up.sql", v))
		if err != nil || len(names) > 1 {
			t.Fatalf("migration %d: %v, %v", v, names, err)
		}
		if len(names) == 0 {
			continue // no migration has this number
		}
		sql, err := fs.ReadFile(migrations.FS, names[0])
		if err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Exec(t.Context(), string(sql)); err != nil {
			t.Fatalf("%s: %v", names[0], err)
		}
	}
	setVersion(t, dsn, version, false)
}

func connect(t *testing.T, dsn string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

func setVersion(t *testing.T, dsn string, version int, dirty bool) {
	t.Helper()
	_, err := connect(t, dsn).Exec(t.Context(), fmt.Sprintf(`TRUNCATE eventhook.schema_migrations; INSERT INTO eventhook.schema_migrations VALUES (%d, %t)`, version, dirty))
	if err != nil {
		t.Fatal(err)
	}
}

func newest(t *testing.T) int {
	t.Helper()
	n, err := migrations.Newest()
	if err != nil {
		t.Fatal(err)
	}
	return int(n)
}

func TestAnInterruptedMigrationIsRunAgain(t *testing.T) {
	dsn := pgtest.New(t)
	full := tables(t, dsn)
	previous := 0
	for v := 1; v <= newest(t); v++ {
		if names, _ := fs.Glob(migrations.FS, fmt.Sprintf("%06d_*.up.sql", v)); len(names) == 0 {
			continue // no migration has this number
		}
		for _, committed := range []bool{false, true} {
			done := previous
			if committed {
				done = v
			}
			migrateTo(t, dsn, done)
			setVersion(t, dsn, v, true)
			if err := migrations.Up(t.Context(), dsn); err != nil {
				t.Fatalf("version %d, committed %t: %v", v, committed, err)
			}
			if got := tables(t, dsn); got != full {
				t.Errorf("version %d, committed %t: %d tables, want %d", v, committed, got, full)
			}
			if version, dirty, err := migrations.Version(t.Context(), dsn); int(version) != newest(t) || dirty || err != nil {
				t.Errorf("version %d, committed %t: got version %d, dirty %t, %v", v, committed, version, dirty, err)
			}
		}
		previous = v
	}
}

// release returns the release that the database records.
func release(t *testing.T, dsn string) (newest, previous int) {
	t.Helper()
	if err := connect(t, dsn).QueryRow(t.Context(), `SELECT newest, previous FROM eventhook.schema_release`).Scan(&newest, &previous); err != nil {
		t.Fatal(err)
	}
	return newest, previous
}

func TestUpRecordsTheReleaseUnlessALaterOneDid(t *testing.T) {
	dsn := pgtest.New(t)
	own := newest(t)
	for _, c := range []struct {
		claim, change          string
		newest, previous, want int
	}{
		{"a new database", `SELECT`, own, migrations.PreviousRelease, own},
		{"the former release", `UPDATE eventhook.schema_release SET newest = 3, previous = 2`, own, migrations.PreviousRelease, own},
		{"no row", `DELETE FROM eventhook.schema_release`, own, migrations.PreviousRelease, own},
		{"a later release", `UPDATE eventhook.schema_release SET newest = 1000, previous = 900; UPDATE eventhook.schema_migrations SET version = 1000`, 1000, 900, 1000},
	} {
		if _, err := connect(t, dsn).Exec(t.Context(), c.change); err != nil {
			t.Fatal(err)
		}
		if err := migrations.Up(t.Context(), dsn); err != nil {
			t.Fatalf("%s: %v", c.claim, err)
		}
		gotNewest, gotPrevious := release(t, dsn)
		version, _, err := migrations.Version(t.Context(), dsn)
		if gotNewest != c.newest || gotPrevious != c.previous || int(version) != c.want || err != nil {
			t.Errorf("%s: got release %d after %d, version %d, %v", c.claim, gotNewest, gotPrevious, version, err)
		}
	}
}

func TestASchemaOfANewerVersionIsNotChanged(t *testing.T) {
	dsn := pgtest.New(t)
	setVersion(t, dsn, newest(t)+1, false)
	if err := migrations.Up(t.Context(), dsn); err != nil {
		t.Errorf("got %v, want an instance of this version to start", err)
	}
}

// Instances of the previous version write to the tables that a migration locks, in any
// order. The migration waits for them or is retried, and succeeds.
func TestRunningInstancesDoNotStopAMigration(t *testing.T) {
	// All tests share one server, with a database each.
	const waitingSQL = `SELECT EXISTS (SELECT FROM pg_stat_activity
		WHERE datname = current_database() AND backend_type = 'client backend' AND wait_event_type = 'Lock')`
	for _, order := range [][]string{{"event", "idempotency_key"}, {"idempotency_key", "event"}} {
		t.Run(strings.Join(order, " then "), func(t *testing.T) {
			dsn := pgtest.New(t)
			migrateTo(t, dsn, 4)
			conn := connect(t, dsn)
			tx, err := conn.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			// A deadlock ends the migration, not this transaction.
			if _, err := tx.Exec(t.Context(), `SET LOCAL deadlock_timeout = '10min'`); err != nil {
				t.Fatal(err)
			}
			lock := func(table string) error {
				_, err := tx.Exec(t.Context(), `LOCK TABLE eventhook.`+table+` IN ROW EXCLUSIVE MODE`)
				return err
			}
			if err := lock(order[0]); err != nil {
				t.Fatal(err)
			}
			done := make(chan error, 1)
			go func() { done <- migrations.Up(t.Context(), dsn) }()
			watcher := connect(t, dsn)
			for waiting := false; !waiting; {
				select {
				case err := <-done:
					t.Fatalf("the migration has not waited for the lock: %v", err)
				default:
				}
				if err := watcher.QueryRow(t.Context(), waitingSQL).Scan(&waiting); err != nil {
					t.Fatal(err)
				}
			}
			if err := lock(order[1]); err != nil {
				t.Fatal(err)
			}
			if err := tx.Rollback(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := <-done; err != nil {
				t.Errorf("got %v, want nil", err)
			}
		})
	}
}

// Instances of an earlier version may use any database that this version did not create,
// even an empty one.
func TestOnlyANewDatabaseStartsWithBoundSecrets(t *testing.T) {
	dsn := pgtest.New(t)
	mode := func() (mode string) {
		t.Helper()
		if err := connect(t, dsn).QueryRow(t.Context(), `SELECT mode FROM eventhook.sealing`).Scan(&mode); err != nil {
			t.Fatal(err)
		}
		return mode
	}
	if got := mode(); got != "bound_only" {
		t.Errorf("a new database starts with %s, want bound_only", got)
	}
	migrateTo(t, dsn, 8)
	for range 2 {
		if err := migrations.Up(t.Context(), dsn); err != nil {
			t.Fatal(err)
		}
		if got := mode(); got != "unbound" {
			t.Errorf("a database of an earlier version continues with %s, want unbound", got)
		}
	}
}
