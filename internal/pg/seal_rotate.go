package pg

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/eventhook/eventhook"
)

// Unopened is a stored value that no key opens.
type Unopened struct {
	Column string
	ID     string // the id of the row
	Err    error
}

// Resealed is the result of Reseal.
type Resealed struct {
	Count    int
	Unopened []Unopened
	Left     int // values that other processes kept changing; the next run finds them
	Unbound  int // values that are not bound to their place
}

// Reseal seals all values again that are sealed with another key than keyID or are not bound
// to their place. keyID is the id of the sealer's newest key. From the start of Reseal on, all
// instances write bound values. At its end, if every value is bound, all instances refuse
// unbound ones. The error is KindUnavailable if the keys do not fit the database.
//
// Reseal works in small steps while instances run. A value that another process changes
// concurrently is left as it is and examined again. A value that does not open is reported and
// left alone. Reseal calls progress after each step. After an interruption, the next run
// continues with the remaining values.
func (db *DB) Reseal(ctx context.Context, keyID string, progress func(done, total int)) (Resealed, error) {
	if err := db.StartSealing(ctx); err != nil {
		return Resealed{}, err
	}
	if err := db.moveSealing(ctx, sealsUnbound, sealsBound); err != nil {
		return Resealed{}, err
	}
	counts, err := db.CountSealed(ctx)
	if err != nil {
		return Resealed{}, err
	}
	r := resealer{db: db, newest: boundPrefix + keyID + ":", progress: progress, seen: map[string]bool{}}
	for _, c := range counts {
		if c.KeyID != keyID || !c.IsBound {
			r.total += c.Count
		}
	}
	for _, c := range sealedColumns {
		if err := r.column(ctx, c); err != nil {
			return r.Resealed, translate("reseal", err)
		}
	}
	return r.Resealed, r.finish(ctx)
}

// finish moves the database to bound_only if no unbound value is left, and seals the canary
// with the newest key.
func (r *resealer) finish(ctx context.Context) error {
	counts, err := r.db.CountSealed(ctx)
	if err != nil {
		return err
	}
	for _, c := range counts {
		if c.KeyID != "" && !c.IsBound {
			r.Unbound += c.Count
		}
	}
	if r.Unbound == 0 { // since the mode is bound, no instance writes unbound values
		if err := r.db.moveSealing(ctx, sealsBound, sealsBoundOnly); err != nil {
			return err
		}
	}
	return r.db.inTx(ctx, "reseal the canary", func(tx pgx.Tx) error {
		mode, canary, err := readSealing(ctx, tx, " FOR UPDATE")
		if err != nil || strings.HasPrefix(canary, r.newest) {
			return err
		}
		if s := r.db.storeSealing(mode, canary); s.err != nil {
			return s.err
		}
		return r.db.writeCanary(ctx, tx, mode)
	})
}

// moveSealing moves the database from one mode to the next. It waits for transactions that
// seal in the former mode.
func (db *DB) moveSealing(ctx context.Context, from, to sealMode) error {
	err := db.inTx(ctx, "bind secrets to their place", func(tx pgx.Tx) error {
		mode, canary, err := readSealing(ctx, tx, " FOR UPDATE")
		if err != nil {
			return err
		}
		if s := db.storeSealing(mode, canary); s.err != nil || mode != from {
			return s.err
		}
		return db.writeCanary(ctx, tx, to)
	})
	if err != nil {
		return err
	}
	return db.ReadSealing(ctx)
}

type resealer struct {
	Resealed
	db       *DB
	newest   string // the prefix of values that are up to date
	total    int
	progress func(done, total int)
	seen     map[string]bool // unopened values by column and id
}

// column reseals a column in steps. Steps of many rows skip locked rows: waiting for a lock
// while holding others could deadlock. The skipped rows are resealed at the end, one at a
// time.
func (r *resealer) column(ctx context.Context, c sealedColumn) error {
	const rows, tries = 200, 5
	missed, err := r.pass(ctx, c, rows, "SKIP LOCKED")
	for n := 0; err == nil && missed > 0 && n < tries; n++ {
		missed, err = r.pass(ctx, c, 1, "")
	}
	r.Left += missed
	return err
}

// pass reseals a column once. It returns the number of values that it could not change.
func (r *resealer) pass(ctx context.Context, c sealedColumn, limit int, locked string) (missed int, err error) {
	var after [16]byte
	for {
		rows, err := r.next(ctx, c, after, limit)
		if err != nil || len(rows) == 0 {
			return missed, err
		}
		after = rows[len(rows)-1].key
		n, err := r.replace(ctx, c, rows, locked)
		if err != nil {
			return missed, err
		}
		missed += n
		r.progress(r.Count, r.total)
	}
}

type sealedRow struct {
	key, tenant [16]byte
	was         string
}

// nextSealedSQL walks along the primary key.
const nextSealedSQL = `
SELECT {key}, tenant_id, {column} FROM {table} WHERE {key} > $1 AND NOT starts_with({column}, $2) ORDER BY {key} LIMIT $3`

func (r *resealer) next(ctx context.Context, c sealedColumn, after [16]byte, limit int) ([]sealedRow, error) {
	rows, err := r.db.work.Query(ctx, c.sql(nextSealedSQL), after, r.newest, limit)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (s sealedRow, err error) {
		return s, row.Scan(&s.key, &s.tenant, &s.was)
	})
}

// resealSQL replaces values that are still the ones that were read, by their primary keys.
// Concurrent readers see either value and can open both.
const resealSQL = `
WITH same AS (
    SELECT t.{key} AS key, u.sealed
    FROM unnest($1::uuid[], $2::text[], $3::text[]) AS u (key, was, sealed)
    JOIN {table} t ON t.{key} = u.key AND t.{column} = u.was
    FOR NO KEY UPDATE OF t `

const resealSameSQL = `
)
UPDATE {table} t SET {column} = same.sealed FROM same WHERE t.{key} = same.key`

func (r *resealer) replace(ctx context.Context, c sealedColumn, rows []sealedRow, locked string) (missed int, err error) {
	var keys [][16]byte
	var was, sealed []string
	for _, row := range rows {
		plain, err := r.db.openIn(row.was, c.place(row.key, row.tenant))
		if err != nil {
			r.unopened(c, row.key, err)
			continue
		}
		s, err := r.db.sealer.Seal(plain, c.place(row.key, row.tenant))
		if err != nil {
			return 0, fmt.Errorf("%s: %w", c, err)
		}
		keys, was, sealed = append(keys, row.key), append(was, row.was), append(sealed, s)
	}
	if len(keys) == 0 {
		return 0, nil
	}
	tag, err := r.db.work.Exec(ctx, c.sql(resealSQL+locked+resealSameSQL), keys, was, sealed)
	n := int(tag.RowsAffected())
	r.Count += n
	return len(keys) - n, err
}

// unopened records a value that does not open, once.
func (r *resealer) unopened(c sealedColumn, key [16]byte, err error) {
	id := eventhook.ID[sealedRow](key).String()
	if place := c.String() + id; !r.seen[place] {
		r.seen[place] = true
		r.Unopened = append(r.Unopened, Unopened{c.String(), id, err})
	}
}
