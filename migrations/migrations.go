// Package migrations holds the schema as SQL and brings a database to it.
// Migrations are numbered, run in order, and each can be undone.
package migrations

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"github.com/golang-migrate/migrate/v4"
	"github.com/golang-migrate/migrate/v4/database"
	migratepgx "github.com/golang-migrate/migrate/v4/database/pgx/v5" // database/sql driver over pgx
	"github.com/golang-migrate/migrate/v4/source/iofs"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
)

// FS holds the migrations, NNNNNN_name.up.sql and .down.sql.
//
//go:embed *.sql
var FS embed.FS

// Up brings the database at dsn to the newest schema. It holds an advisory
// lock while it works, so instances that start together wait for each other;
// on a current schema it changes nothing.
func Up(ctx context.Context, dsn string) error {
	return run(ctx, dsn, "migrate up", (*migrate.Migrate).Up)
}

// Down undoes every migration: all data of the gateway is gone.
func Down(ctx context.Context, dsn string) error {
	return run(ctx, dsn, "migrate down", (*migrate.Migrate).Down)
}

// Version returns the schema's version, 0 without one. dirty means that a
// migration stopped half-way and a person must look.
func Version(ctx context.Context, dsn string) (version uint, dirty bool, err error) {
	err = run(ctx, dsn, "read the schema's version", func(m *migrate.Migrate) (err error) {
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

func run(ctx context.Context, dsn, act string, do func(*migrate.Migrate) error) error {
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
	err = do(m)
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
