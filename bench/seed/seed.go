// Package seed inserts many rows into a gateway's database by SQL, so that
// measurements find a full database after seconds.
//
// The rows look as the gateway writes them, but are inserted in bulk, without its
// checks. The package never creates a database and deletes nothing. It is for
// measurements only.
package seed

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// Counts that do not depend on the size of the database. The time of a list that
// returns these rows must not grow with the rest.
const (
	Rare            = 5                // events of source 1, of RareType, and of each status except delivered and dead; audit entries of RareAction
	DeadEvents      = 3                // events with the status dead
	FirstRoutes     = 60               // routes of source 1; every other source has one
	FirstRejections = 50               // rejections of source 1; every other source has one
	RareType        = "rare.type"      // all other events have type.0 to type.19
	RareAction      = "source.deleted" // all other audit entries have source.updated
	dueAfter        = time.Hour        // open events become due after the measurements
	minEvents       = 1000
	minSources      = 2
	receiptInterval = time.Millisecond // between two events
)

// Database is a database of a gateway with the tenant and the source whose rows are
// multiplied.
type Database struct {
	Conn   *pgx.Conn
	Tenant [16]byte

	like    string // slug of the source that the seeded sources are copies of
	events  int
	sources int
	until   time.Time // receipt of the newest event
}

// Open finds the tenant by its slug. The seeded sources will be copies of its source
// with the slug like, and have its routes. Open returns an error for fewer than 1000
// events or fewer than 2 sources, because the rare rows need as many.
func Open(ctx context.Context, conn *pgx.Conn, tenant, like string, events, sources int) (*Database, error) {
	if events < minEvents || sources < minSources {
		return nil, fmt.Errorf("seed: %d events and %d sources, want at least %d and %d", events, sources, minEvents, minSources)
	}
	d := &Database{Conn: conn, like: like, events: events, sources: sources, until: time.Now().Truncate(time.Millisecond)}
	if err := conn.QueryRow(ctx, `SELECT id FROM eventhook.tenant WHERE slug = $1`, tenant).Scan(&d.Tenant); err != nil {
		return nil, fmt.Errorf("seed: find tenant %s: %w", tenant, err)
	}
	return d, nil
}

// ReceivedAt returns the receipt of event n, counted from 1. One event is received
// in each millisecond.
func (d *Database) ReceivedAt(n int) time.Time {
	return d.until.Add(time.Duration(n-d.events) * receiptInterval)
}

// SourceSlug returns the slug of seeded source n, counted from 1. All slugs have the
// same length.
func SourceSlug(n int) string { return fmt.Sprintf("source-%06d", n) }

// Table is a statement that inserts the rows of one kind.
type Table struct{ name, sql string }

// Insert executes statements in order.
func (d *Database) Insert(ctx context.Context, tables ...Table) error {
	args := pgx.NamedArgs{
		"tenant": d.Tenant, "like": d.like, "events": d.events, "sources": d.sources, "until": d.until, "later": d.until.Add(dueAfter),
		"few": Rare, "dead": DeadEvents, "routes": FirstRoutes, "rejections": FirstRejections, "rare_type": RareType, "rare_action": RareAction,
	}
	for _, t := range tables {
		if _, err := d.Conn.Exec(ctx, t.sql, args); err != nil {
			return fmt.Errorf("seed %s: %w", t.name, err)
		}
	}
	return nil
}

// InsertAll inserts rows of every table and vacuums. Events take the longest, so a
// second connection inserts the other tables at the same time.
func (d *Database) InsertAll(ctx context.Context) error {
	if err := d.Insert(ctx, Sources...); err != nil {
		return err
	}
	second := *d
	var err error
	if second.Conn, err = pgx.ConnectConfig(ctx, d.Conn.Config()); err != nil {
		return err
	}
	defer func() { _ = second.Conn.Close(ctx) }()
	inserted := make(chan error, 1)
	go func() { inserted <- second.Insert(ctx, otherTables...) }()
	err = d.Insert(ctx, Events)
	if err = errors.Join(err, <-inserted); err != nil {
		return err
	}
	return Vacuum(ctx, d.Conn)
}

// Vacuum vacuums and analyzes the database and writes a checkpoint, so that no such
// work falls into a measurement.
func Vacuum(ctx context.Context, conn *pgx.Conn) error {
	for _, sql := range []string{`VACUUM (ANALYZE)`, `CHECKPOINT`} {
		if _, err := conn.Exec(ctx, sql); err != nil {
			return fmt.Errorf("%s: %w", sql, err)
		}
	}
	return nil
}
