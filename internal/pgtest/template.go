package pgtest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/eventhook/eventhook/migrations"
)

const (
	// templateLock is an advisory lock: one test process creates the template at a time.
	templateLock = 0x65686b_74706c
	objectInUse  = "55006"
	retryAfter   = 20 * time.Millisecond
)

// templateName returns a name with a hash of the migrations, so that a changed schema gets a
// new template.
func templateName() (string, error) {
	sum := sha256.New()
	names, err := fs.Glob(migrations.FS, "*.sql")
	if err != nil || len(names) == 0 {
		return "", errors.Join(errors.New("there are no migrations"), err)
	}
	for _, name := range names {
		b, err := migrations.FS.ReadFile(name)
		if err != nil {
			return "", err
		}
		_, _ = fmt.Fprintf(sum, "%s\x00%d\x00%s", name, len(b), b)
	}
	return "eventhook_tpl_" + hex.EncodeToString(sum.Sum(nil)[:6]), nil
}

// finishedSQL looks for a complete template. IS_TEMPLATE is set last, so a database without
// it was left by a process that was killed.
const finishedSQL = `SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1 AND datistemplate)`

// createTemplate creates the template unless it exists. Several processes may call it
// concurrently.
func (s *server) createTemplate(ctx context.Context) error {
	conn, err := pgx.Connect(ctx, s.base.String())
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }() // frees the lock
	if _, err := conn.Exec(ctx, `SELECT pg_advisory_lock($1)`, int64(templateLock)); err != nil {
		return fmt.Errorf("lock the template: %w", err)
	}
	var finished bool
	if err := conn.QueryRow(ctx, finishedSQL, s.template).Scan(&finished); err != nil {
		return fmt.Errorf("look for the template: %w", err)
	}
	if finished {
		return nil
	}
	for _, sql := range []string{
		`DROP DATABASE IF EXISTS ` + s.template + ` WITH (FORCE)`,
		`CREATE DATABASE ` + s.template + ` TEMPLATE template0`,
	} {
		if _, err := conn.Exec(ctx, sql); err != nil {
			return fmt.Errorf("create the template: %w", err)
		}
	}
	if err := migrations.Up(ctx, s.dsn(s.template)); err != nil {
		return fmt.Errorf("create the template: %w", err)
	}
	// No connections are allowed from here on: a connection would block cloning.
	finish := `ALTER DATABASE ` + s.template + ` WITH ALLOW_CONNECTIONS false IS_TEMPLATE true`
	if _, err := conn.Exec(ctx, finish); err != nil {
		return fmt.Errorf("finish the template: %w", err)
	}
	return nil
}

// clone creates a database from the template. It retries while the template is in use, which
// it may be for a moment after the migration.
func (s *server) clone(ctx context.Context, name string) error {
	err := s.exec(ctx, `CREATE DATABASE `+name+` TEMPLATE `+s.template)
	for busy(err) {
		select {
		case <-ctx.Done():
			return fmt.Errorf("clone the template: %w", err)
		case <-time.After(retryAfter):
		}
		err = s.exec(ctx, `CREATE DATABASE `+name+` TEMPLATE `+s.template)
	}
	if err != nil {
		return fmt.Errorf("clone the template: %w", err)
	}
	return nil
}

// drop removes a database and ends its connections.
func (s *server) drop(ctx context.Context, name string) error {
	if err := s.exec(ctx, `DROP DATABASE IF EXISTS `+name+` WITH (FORCE)`); err != nil {
		return fmt.Errorf("drop the test's database: %w", err)
	}
	return nil
}

func (s *server) exec(ctx context.Context, sql string) error {
	conn, err := pgx.Connect(ctx, s.base.String())
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }()
	_, err = conn.Exec(ctx, sql)
	return err
}

func busy(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.Code == objectInUse
}
