// Package migrations contains the database schema as SQL migrations and applies them.
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

	"github.com/eventhook/eventhook"
)

// FS contains the migrations, NNNNNN_name.up.sql and NNNNNN_name.down.sql.
//
//go:embed *.sql
var FS embed.FS

// PreviousRelease is the newest migration of the release before this one. Its instances stay
// ready while a rolling upgrade to this release runs. A release sets it to the Newest of the
// release before.
const PreviousRelease = 14

// Up migrates the database at dsn to the newest schema. It holds an advisory lock, so
// instances that start together wait for each other. If the schema is current or newer, Up
// changes nothing and returns nil. Up may run while instances of the previous version run.
// After a deadlock with them or a lock timeout it retries. Each migration is one
// transaction: a migration that fails or is killed changes nothing, and the next Up runs it
// again.
func Up(ctx context.Context, dsn string) error {
	const tries = 20
	for try := 1; ; try++ {
		err := run(ctx, dsn, "migrate up", upAndRecord)
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

// recordReleaseSQL writes this release unless the schema belongs to a later one.
const recordReleaseSQL = `
INSERT INTO eventhook.schema_release AS r (newest, previous) VALUES ($1, $2)
ON CONFLICT (is_only_row) DO UPDATE SET newest = excluded.newest, previous = excluded.previous WHERE r.newest < excluded.newest`

// upAndRecord runs the migrations and records the release. It records the release before the
// first migration as well, so that instances of the previous release recognize the schema while
// the migrations run.
func upAndRecord(ctx context.Context, m *migrate.Migrate, db *sql.DB) error {
	newest, err := Newest()
	if err != nil {
		return err
	}
	record := func() error {
		_, err := db.ExecContext(ctx, recordReleaseSQL, newest, PreviousRelease)
		return err
	}
	if err := record(); err != nil && !hasCode(err, "42P01") { // undefined table: the schema is older than the table
		return err
	}
	if err := up(ctx, m, db); err != nil && !errors.Is(err, migrate.ErrNoChange) {
		return err
	}
	if version, _, err := m.Version(); err != nil || int64(version) != newest {
		return err // nil if a later release has migrated the schema
	}
	if err := record(); err != nil {
		return err
	}
	_, err = db.ExecContext(ctx, notifySQL)
	return err
}

// notifySQL wakes the instances that wait for their schema; see package pg.
const notifySQL = `SELECT pg_notify('eventhook_wake', 'migrations sealing')`

// bindSecretsSQL lets a database that this version created start with bound secrets, since
// no instance of an earlier version has used it.
const bindSecretsSQL = `UPDATE eventhook.sealing SET mode = 'bound_only' WHERE mode = 'unbound' AND canary IS NULL`

func up(ctx context.Context, m *migrate.Migrate, db *sql.DB) error {
	newest, err := Newest()
	if err != nil {
		return err
	}
	version, dirty, err := m.Version()
	switch {
	case errors.Is(err, migrate.ErrNilVersion):
		if err := upOrForce(m); err != nil {
			return err
		}
		_, err := db.ExecContext(ctx, bindSecretsSQL)
		return err
	case err != nil:
		return err
	case int64(version) > newest:
		return nil
	case dirty:
		return rerun(m, version)
	}
	return upOrForce(m)
}

// rerun runs a migration that may have been committed before its process ended. If its
// first statement finds the objects that it creates, the whole migration was committed.
func rerun(m *migrate.Migrate, version uint) error {
	if err := m.Force(before(version)); err != nil {
		return err
	}
	err := upOrForce(m)
	if !isApplied(err) {
		return err
	}
	if err := m.Force(int(version)); err != nil {
		return err
	}
	return upOrForce(m)
}

// upOrForce runs all further migrations. If one fails, it sets the version back to the one
// before, since the database has rolled the migration back.
func upOrForce(m *migrate.Migrate) error {
	err := m.Up()
	if err == nil || errors.Is(err, migrate.ErrNoChange) {
		return err
	}
	if version, dirty, readErr := m.Version(); readErr == nil && dirty {
		return errors.Join(err, m.Force(before(version)))
	}
	return err
}

// before returns the previous version, -1 before the first. Numbers may be missing.
func before(version uint) int {
	all, _ := versions() // the names were read before
	previous := -1
	for _, v := range all {
		if v < int64(version) {
			previous = int(v)
		}
	}
	return previous
}

// isApplied reports whether a migration failed because its objects exist already (SQLSTATE
// duplicate table, column or object).
func isApplied(err error) bool { return hasCode(err, "42P07", "42701", "42710") }

// isLockConflict reports whether err is a deadlock or a lock timeout.
func isLockConflict(err error) bool { return hasCode(err, "40P01", "55P03") }

func hasCode(err error, codes ...string) bool {
	if failed, ok := errors.AsType[database.Error](err); ok {
		err = failed.OrigErr
	}
	pgErr, ok := errors.AsType[*pgconn.PgError](err)
	return ok && slices.Contains(codes, pgErr.Code)
}

// Down undoes every migration. It deletes all data of the gateway.
func Down(ctx context.Context, dsn string) error {
	return run(ctx, dsn, "migrate down", func(_ context.Context, m *migrate.Migrate, _ *sql.DB) error { return m.Down() })
}

// Version returns the version of the schema, 0 before the first migration. dirty means that a
// migration was interrupted; Up runs it again.
func Version(ctx context.Context, dsn string) (version uint, dirty bool, err error) {
	err = run(ctx, dsn, "read the schema version", func(_ context.Context, m *migrate.Migrate, _ *sql.DB) (err error) {
		version, dirty, err = m.Version()
		return err
	})
	return version, dirty, err
}

// createSchemaSQL creates the schema. The lock serializes instances, which IF NOT EXISTS
// alone does not. If the schema exists, the role needs no privilege to create schemas.
const createSchemaSQL = `
DO $$ BEGIN
    PERFORM pg_advisory_xact_lock(1702258283);
    IF NOT EXISTS (SELECT FROM pg_namespace WHERE nspname = 'eventhook') THEN
        CREATE SCHEMA eventhook;
    END IF;
END $$`

func run(ctx context.Context, dsn, act string, do func(context.Context, *migrate.Migrate, *sql.DB) error) error {
	config, err := pgx.ParseConfig(dsn)
	if err != nil {
		// Without the cause, which may quote the password. Package pg returns the same error.
		return &eventhook.Error{Kind: eventhook.KindInvalid, Message: "DATABASE_URL is not a PostgreSQL URL such as postgres://host:5432/database"}
	}
	db := stdlib.OpenDB(*config)
	defer func() { _ = db.Close() }()
	if err := db.PingContext(ctx); err != nil {
		return fmt.Errorf("%s: %w", act, err)
	}
	// The table of versions is in the gateway's schema, regardless of the search path,
	// which changes with the first migration for a role named eventhook.
	if _, err := db.ExecContext(ctx, createSchemaSQL); err != nil {
		return fmt.Errorf("%s: %w", act, err)
	}
	// Hold the lock from reading the version on: while a migration runs, its version is
	// marked as interrupted.
	locked, err := db.Conn(ctx)
	if err != nil {
		return fmt.Errorf("%s: %w", act, err)
	}
	defer func() { _ = locked.Close() }()
	if _, err := locked.ExecContext(ctx, `SELECT pg_advisory_lock(1702258284)`); err != nil { // held until the connection ends
		return fmt.Errorf("%s: %w", act, err)
	}
	defer func() {
		_, _ = locked.ExecContext(context.WithoutCancel(ctx), `SELECT pg_advisory_unlock(1702258284)`)
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
			err = failed.OrigErr // without the text of the migration
		}
		return fmt.Errorf("%s: %w", act, err)
	}
	return nil
}

// Newest returns the version to which Up migrates a schema.
func Newest() (version int64, err error) {
	all, err := versions()
	if err != nil || len(all) == 0 {
		return 0, err
	}
	return all[len(all)-1], nil
}

// versions returns the numbers of the migrations in their order.
func versions() (all []int64, err error) {
	files, err := fs.Glob(FS, "*.up.sql")
	for _, name := range files { // sorted by name
		number, _, _ := strings.Cut(name, "_")
		version, err := strconv.ParseInt(number, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("the migration %s has no number: %w", name, err)
		}
		all = append(all, version)
	}
	return all, err
}
