package soak

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/eventhook/eventhook"
)

// settledSQL finds the numbers of events that are stored once, settled, processed by exactly one
// execution, and delivered to all subscribers. Rows from before $1 have been audited. A request that
// was repeated has an event with the status duplicate, which does not count.
const settledSQL = `
WITH payload AS (
    SELECT e.id, e.origin, e.status, substring(convert_from(p.body, 'UTF8') FROM '"n":(\d+)')::int AS n
    FROM eventhook.event e JOIN eventhook.event_payload p ON p.event_id = coalesce(e.payload_of, e.id)
    WHERE e.id >= $1 AND e.due_at IS NULL AND e.status <> 'duplicate' AND e.origin IN ('source', 'route')
), stored AS (
    SELECT n, min(id::text)::uuid AS id FROM payload WHERE origin = 'source' GROUP BY n HAVING count(*) = 1 AND min(status) = 'delivered'
), sent AS (
    SELECT n FROM payload JOIN eventhook.delivery d ON d.event_id = payload.id AND d.id >= $1
    WHERE origin = 'route' GROUP BY n HAVING count(*) = $2 AND count(*) FILTER (WHERE d.status = 'success') = $2
), ran AS (
    SELECT event_id AS id FROM eventhook.execution WHERE event_id >= $1 GROUP BY event_id
    HAVING count(*) = 1 AND count(*) FILTER (WHERE status = 'completed') = 1
)
SELECT n FROM stored JOIN sent USING (n) JOIN ran USING (id)`

// settled returns the numbers of the settled events that are in the database.
func (r *run) settled(ctx context.Context, q querier) ([]int, error) {
	// The planner takes each of the sets for one row and would join them by nested loops.
	if _, err := q.Exec(ctx, `SET enable_nestloop = off`); err != nil {
		return nil, err
	}
	rows, err := q.Query(ctx, settledSQL, firstID(r.began.Add(-time.Hour)), len(kinds))
	if err != nil {
		return nil, fmt.Errorf("count settled events: %w", err)
	}
	return pgx.CollectRows(rows, pgx.RowTo[int])
}

type querier interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// firstID returns the bound of ids at a time.
func firstID(t time.Time) string { return eventhook.FirstID[eventhook.Event](t).String() }

// olderSQL returns the id that a row would have if it had been created some days earlier.
const olderSQL = `
CREATE OR REPLACE FUNCTION pg_temp.older(id uuid, days int) RETURNS uuid LANGUAGE sql IMMUTABLE AS $$
    SELECT (lpad(to_hex(('x' || left(replace(id::text, '-', ''), 12))::bit(48)::bigint - days * 86400000::bigint), 12, '0') || substr(replace(id::text, '-', ''), 13))::uuid
$$`

// ageSQL are the statements that make all rows of settled events older by @days. A row that moves
// between partitions is deleted and inserted, so autovacuum has work, too.
var ageSQL = []string{
	`CREATE TEMP TABLE aged ON COMMIT DROP AS
    SELECT e.id FROM eventhook.event e JOIN eventhook.event_payload p ON p.event_id = coalesce(e.payload_of, e.id)
    WHERE e.id >= @from AND e.origin IN ('source', 'route') AND substring(convert_from(p.body, 'UTF8') FROM '"n":(\d+)')::int = ANY(@numbers)`,
	`ANALYZE aged`,
	`UPDATE eventhook.delivery d SET id = pg_temp.older(d.id, @days), event_id = pg_temp.older(event_id, @days), completed_at = completed_at - @days * interval '1 day'
    FROM aged WHERE d.event_id = aged.id AND d.id >= @from`,
	`UPDATE eventhook.event_payload p SET event_id = pg_temp.older(event_id, @days) FROM aged WHERE p.event_id = aged.id AND p.event_id >= @from`,
	`UPDATE eventhook.execution x SET event_id = pg_temp.older(event_id, @days), completed_at = completed_at - @days * interval '1 day' FROM aged WHERE x.event_id = aged.id`,
	`UPDATE eventhook.idempotency_key k SET expires_at = now() - interval '1 hour' FROM aged WHERE k.made = aged.id`,
	`UPDATE eventhook.event e SET id = pg_temp.older(e.id, @days), payload_of = pg_temp.older(payload_of, @days), processed_at = processed_at - @days * interval '1 day'
    FROM aged WHERE e.id = aged.id AND e.id >= @from`,
}

// daysBack is how far events move at least: beyond every retention.
const daysBack = 10

// age makes days pass for the settled events: their rows become older than the retention. The clocks
// of the processes cannot be moved, so the rows are. Before that, it counts the events: the next
// maintenance drops their partitions. Every second time the partitions of the former day exist; else
// the rows are in the default partitions, from which maintenance moves them first.
func (r *run) age(ctx context.Context) error {
	conn, err := r.connect(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }()
	r.agings++
	days := daysBack + r.agings
	if r.agings%2 == 0 {
		if err := createDay(ctx, conn, time.Now().UTC().AddDate(0, 0, -days)); err != nil {
			return err
		}
	}
	return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		numbers, err := r.settled(ctx, tx)
		if err != nil {
			return err
		}
		numbers = below(numbers, r.ledger.watermark())
		if _, err := tx.Exec(ctx, olderSQL); err != nil {
			return err
		}
		args := pgx.NamedArgs{"days": days, "numbers": numbers, "from": firstID(r.began.Add(-time.Hour))}
		for _, sql := range ageSQL {
			if _, err := tx.Exec(ctx, sql, args); err != nil {
				return fmt.Errorf("age: %w", err)
			}
		}
		r.aged += len(numbers)
		r.ledger.audit(numbers)
		return nil
	})
}

func below(numbers []int, limit int) (list []int) {
	for _, n := range numbers {
		if n < limit {
			list = append(list, n)
		}
	}
	return list
}

// tables are partitioned by day.
var tables = []string{"event", "event_payload", "event_action", "delivery"}

func partition(table string, day time.Time) string {
	return "eventhook." + table + "_" + day.Format("20060102")
}

// createDay creates the partitions of a day, as the gateway does.
func createDay(ctx context.Context, conn *pgx.Conn, day time.Time) error {
	day = day.Truncate(24 * time.Hour)
	for _, table := range tables {
		sql := fmt.Sprintf(`CREATE TABLE IF NOT EXISTS %s PARTITION OF eventhook.%s FOR VALUES FROM ('%s') TO ('%s')`,
			partition(table, day), table, firstID(day), firstID(day.AddDate(0, 0, 1)))
		if _, err := conn.Exec(ctx, sql); err != nil {
			return fmt.Errorf("create the partitions of %s: %w", day.Format(time.DateOnly), err)
		}
	}
	return nil
}

// loseToday removes the partition of events of today, whose rows move to the default partition, and the
// partitions of tomorrow: a day has begun, and no instance has created its partitions.
func (r *run) loseToday(ctx context.Context) error {
	conn, err := r.connect(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }()
	today := time.Now().UTC()
	for _, table := range tables {
		if _, err := conn.Exec(ctx, `DROP TABLE IF EXISTS `+partition(table, today.AddDate(0, 0, 1))); err != nil {
			return fmt.Errorf("drop the partition of tomorrow: %w", err)
		}
	}
	name := partition("event", today)
	return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		var exists bool
		if err := tx.QueryRow(ctx, `SELECT to_regclass($1) IS NOT NULL`, name).Scan(&exists); err != nil || !exists {
			return err
		}
		for _, sql := range []string{
			`LOCK TABLE eventhook.event IN ACCESS EXCLUSIVE MODE`,
			`ALTER TABLE eventhook.event DETACH PARTITION ` + name,
			`INSERT INTO eventhook.event SELECT * FROM ` + name,
			`DROP TABLE ` + name,
		} {
			if _, err := tx.Exec(ctx, sql); err != nil {
				return fmt.Errorf("remove the partition of today: %w", err)
			}
		}
		return nil
	})
}
