// Package migrations holds the schema as SQL and brings a database to it.
// Migrations are numbered, run in order, and each can be undone.
package migrations

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/golang-migrate/migrate/v4"
	"github.com/golang-migrate/migrate/v4/database"
	migratepgx "github.com/golang-migrate/migrate/v4/database/pgx/v5" // database/sql driver over pgx
	"github.com/golang-migrate/migrate/v4/source/iofs"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
)

// FS holds the migrations, NNNNNN_name.up.sql and .down.sql.
//
//go:embed *.sql
var FS embed.FS

// Up brings the database at dsn to the newest schema. It holds an advisory
// lock while it works, so instances that start together wait for each other;
// on a current schema it changes nothing, nor on one of a newer version, which
// only adds to ours. It may run while instances of the former version work: a
// migration that gets into a deadlock with them is tried again. Each migration
// is one transaction, so one that failed or was killed has left nothing behind
// and is run again.
func Up(ctx context.Context, dsn string) error {
	const tries = 20
	for try := 1; ; try++ {
		err := run(ctx, dsn, "migrate up", up)
		if err == nil || try == tries || !isLockConflict(err) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// sealsBoundSQL lets a database that this version created begin with bound
// secrets: no instance of a former version has used it.
const sealsBoundSQL = `UPDATE eventhook.sealing SET mode = 'bound_only' WHERE mode = 'unbound' AND canary IS NULL`

func up(ctx context.Context, m *migrate.Migrate, db *sql.DB) error {
	newest, err := Newest()
	if err != nil {
		return err
	}
	version, dirty, err := m.Version()
	switch {
	case errors.Is(err, migrate.ErrNilVersion):
		if err := undoneIfItFails(m); err != nil {
			return err
		}
		_, err := db.ExecContext(ctx, sealsBoundSQL)
		return err
	case err != nil:
		return err
	case int64(version) > newest:
		return nil
	case dirty:
		return again(m, version)
	}
	return undoneIfItFails(m)
}

// again runs a migration of which nobody knows whether it was committed before
// its process ended: if its first statement finds its work done, all of it was.
func again(m *migrate.Migrate, version uint) error {
	if err := m.Force(before(version)); err != nil {
		return err
	}
	err := undoneIfItFails(m)
	if !isDone(err) {
		return err
	}
	if err := m.Force(int(version)); err != nil {
		return err
	}
	return undoneIfItFails(m)
}

// undoneIfItFails notes that a migration which failed was rolled back.
func undoneIfItFails(m *migrate.Migrate) error {
	err := m.Up()
	if err == nil || errors.Is(err, migrate.ErrNoChange) {
		return err
	}
	if version, dirty, readErr := m.Version(); readErr == nil && dirty {
		return errors.Join(err, m.Force(before(version)))
	}
	return err
}

// before is the version before another; -1 is none.
func before(version uint) int {
	if version <= 1 {
		return -1
	}
	return int(version) - 1
}

// isDone reports whether a migration found what it makes (SQLSTATE duplicate
// table, column or object).
func isDone(err error) bool { return hasCode(err, "42P07", "42701", "42710") }

// isLockConflict reports whether others were in the way: a deadlock, or a lock
// that did not come in time.
func isLockConflict(err error) bool { return hasCode(err, "40P01", "55P03") }

func hasCode(err error, codes ...string) bool {
	if failed, ok := errors.AsType[database.Error](err); ok {
		err = failed.OrigErr
	}
	pgErr, ok := errors.AsType[*pgconn.PgError](err)
	return ok && slices.Contains(codes, pgErr.Code)
}

// Down undoes every migration: all data of the gateway is gone.
func Down(ctx context.Context, dsn string) error {
	return run(ctx, dsn, "migrate down", func(_ context.Context, m *migrate.Migrate, _ *sql.DB) error { return m.Down() })
}

// Version returns the schema's version, 0 without one. dirty means that a
// migration was cut off; Up runs it again.
func Version(ctx context.Context, dsn string) (version uint, dirty bool, err error) {
	err = run(ctx, dsn, "read the schema's version", func(_ context.Context, m *migrate.Migrate, _ *sql.DB) (err error) {
		version, dirty, err = m.Version()
		return err
	})
	return version, dirty, err
}

// makeSchemaSQL takes turns with other instances (IF NOT EXISTS alone does not),
// and needs no right to make schemas where ours exists.
const makeSchemaSQL = `
DO $$ BEGIN
    PERFORM pg_advisory_xact_lock(1702258283);
    IF NOT EXISTS (SELECT FROM pg_namespace WHERE nspname = 'eventhook') THEN
        CREATE SCHEMA eventhook;
    END IF;
END $$`

func run(ctx context.Context, dsn, act string, do func(context.Context, *migrate.Migrate, *sql.DB) error) error {
	config, err := pgx.ParseConfig(dsn)
	if err != nil {
		return fmt.Errorf("%s: the database URL cannot be parsed", act) // the cause may quote the password
	}
	db := stdlib.OpenDB(*config)
	defer func() { _ = db.Close() }()
	if err := db.PingContext(ctx); err != nil {
		return fmt.Errorf("%s: %w", act, err)
	}
	// The table of versions lies in our own schema, whatever the search path:
	// for a role called eventhook the path changes with the first migration.
	if _, err := db.ExecContext(ctx, makeSchemaSQL); err != nil {
		return fmt.Errorf("%s: %w", act, err)
	}
	// One at a time, from reading the version on: while a migration runs its
	// version says that it was cut off.
	turn, err := db.Conn(ctx)
	if err != nil {
		return fmt.Errorf("%s: %w", act, err)
	}
	defer func() { _ = turn.Close() }()
	if _, err := turn.ExecContext(ctx, `SELECT pg_advisory_lock(1702258284)`); err != nil { // until its connection ends
		return fmt.Errorf("%s: %w", act, err)
	}
	defer func() {
		_, _ = turn.ExecContext(context.WithoutCancel(ctx), `SELECT pg_advisory_unlock(1702258284)`)
	}()
	driver, err := migratepgx.WithInstance(db, &migratepgx.Config{
		MigrationsTable: `"eventhook"."schema_migrations"`, MigrationsTableQuoted: true,
	})
	if err != nil {
		return fmt.Errorf("%s: %w", act, err)
	}
	source, err := iofs.New(FS, ".")
	if err != nil {
		return fmt.Errorf("%s: %w", act, err)
	}
	m, err := migrate.NewWithInstance("iofs", source, "pgx5", driver)
	if err != nil {
		return fmt.Errorf("%s: %w", act, err)
	}
	defer func() { _, _ = m.Close() }()
	stop := context.AfterFunc(ctx, func() { m.GracefulStop <- true })
	defer stop()
	err = do(ctx, m, db)
	if errors.Is(err, migrate.ErrNoChange) || errors.Is(err, migrate.ErrNilVersion) {
		err = nil
	}
	if err != nil {
		if failed, ok := errors.AsType[database.Error](err); ok && failed.OrigErr != nil {
			err = failed.OrigErr // without the whole migration
		}
		return fmt.Errorf("%s: %w", act, err)
	}
	return nil
}

// Newest is the version that Up brings a schema to.
func Newest() (version int64, err error) {
	files, err := fs.Glob(FS, "*.up.sql")
	for _, name := range files { // in their order
		number, _, _ := strings.Cut(name, "_")
		if version, err = strconv.ParseInt(number, 10, 64); err != nil {
			return 0, fmt.Errorf("the migration %s has no number: %w", name, err)
		}
	}
	return version, err
}
