package pg

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/eventhook/eventhook"
)

// sweepPages is the number of pages that one call reads: 8 MB.
const sweepPages = 1000

// sweepPosition is the page of a table where the next call continues. Each instance sweeps on
// its own and finds only rows that are still there.
type sweepPosition struct {
	mu   sync.Mutex
	page uint32
}

// sweepKeysSQL deletes expired keys from a range of pages. There is no index on expires_at,
// since every accepted event would have to maintain it. It skips locked rows, so that it never
// waits and cannot be part of a deadlock. TID range scan.
const sweepKeysSQL = `
WITH over AS MATERIALIZED (
    SELECT ctid FROM eventhook.idempotency_key
    WHERE ctid >= $1 AND ctid < $2 AND expires_at <= $3
    FOR UPDATE SKIP LOCKED
)
DELETE FROM eventhook.idempotency_key WHERE ctid = ANY(ARRAY(SELECT ctid FROM over))`

// sweepExecutionsSQL deletes, from a range of pages, executions that ended before a time.
// Foreign keys delete their rows of execution_await as well.
const sweepExecutionsSQL = `
WITH over AS MATERIALIZED (
    SELECT ctid FROM eventhook.execution
    WHERE ctid >= $1 AND ctid < $2 AND completed_at <= $3 AND due_at IS NULL
    FOR UPDATE SKIP LOCKED
)
DELETE FROM eventhook.execution WHERE ctid = ANY(ARRAY(SELECT ctid FROM over))`

// SweepIdempotencyKeys deletes expired idempotency keys from the next part of their table, and
// returns their number. The cost of a call does not depend on the size of the table; after the last
// part, the next call starts at the first. An expired key that is still stored can be claimed
// again, so a late sweep costs only disk space.
func (db *DB) SweepIdempotencyKeys(ctx context.Context) (int, error) {
	return db.sweep(ctx, "sweep idempotency keys", "idempotency_key", sweepKeysSQL, &db.sweptKeys, db.now())
}

// SweepExecutions deletes executions that ended longer than keep ago from the next part of
// their table, as SweepIdempotencyKeys does. If keep is 0, it deletes none. It always keeps
// executions for TargetKeyTTL, while their target's key is valid.
func (db *DB) SweepExecutions(ctx context.Context, keep time.Duration) (int, error) {
	if keep <= 0 {
		return 0, nil
	}
	return db.sweep(ctx, "sweep executions", "execution", sweepExecutionsSQL, &db.sweptExecutions, db.now().Add(-max(keep, eventhook.TargetKeyTTL)))
}

// sweepPromisesSQL deletes, from a range of pages, promises that were settled before a time.
// These include outcomes that arrived for promises that were never created. A promise that an
// execution awaited is deleted after the execution.
const sweepPromisesSQL = `
WITH over AS MATERIALIZED (
    SELECT ctid FROM eventhook.promise p
    WHERE ctid >= $1 AND ctid < $2 AND settled_at <= $3 AND due_at IS NULL
      AND NOT EXISTS (SELECT FROM eventhook.execution_await w WHERE w.promise_id = p.id)
    FOR UPDATE SKIP LOCKED
)
DELETE FROM eventhook.promise WHERE ctid = ANY(ARRAY(SELECT ctid FROM over))`

// SweepPromises deletes promises that were settled longer than keep ago from the next part of
// their table, as SweepIdempotencyKeys does. If keep is 0, it deletes none. A pending promise
// without a deadline stays.
func (db *DB) SweepPromises(ctx context.Context, keep time.Duration) (int, error) {
	if keep <= 0 {
		return 0, nil
	}
	return db.sweep(ctx, "sweep promises", "promise", sweepPromisesSQL, &db.sweptPromises, db.now().Add(-keep))
}

func (db *DB) sweep(ctx context.Context, act, table, sql string, at *sweepPosition, before time.Time) (int, error) {
	at.mu.Lock()
	defer at.mu.Unlock()
	var pages int64
	const size = `SELECT pg_relation_size(('eventhook.' || $1)::regclass) / current_setting('block_size')::bigint`
	if err := db.work.QueryRow(ctx, size, table).Scan(&pages); err != nil {
		return 0, translate(act, err)
	}
	from := at.page
	if int64(from) >= pages {
		from = 0
	}
	tag, err := db.work.Exec(ctx, sql, tid(from), tid(from+sweepPages), before)
	if err != nil {
		return 0, translate(act, err)
	}
	at.page = from + sweepPages
	return int(tag.RowsAffected()), nil
}

func tid(page uint32) pgtype.TID { return pgtype.TID{BlockNumber: page, Valid: true} }

// partitioned lists the tables that are partitioned by the time in an id. For each it has the
// column of the id and a query for open work, which prevents the deletion of a partition. $1
// and $2 are the bounds of the partition.
var partitioned = []partitionedTable{
	// Deliveries to subscribers read the event and its body.
	{"event", "id", openEventsSQL + ` UNION ALL ` + openDeliveriesSQL, ""},
	{"event_action", "event_id", openEventsSQL, ""},
	// A body is also the input of the event's executions.
	{"event_payload", "event_id", openEventsSQL + ` UNION ALL ` + openDeliveriesSQL + `
		UNION ALL SELECT FROM eventhook.execution WHERE event_id >= $1 AND event_id < $2 AND completed_at IS NULL`, ""},
	{"delivery", "id", openDeliveriesSQL, releasedDeliveriesSQL},
}

// A delivery is in the partition of the same day as its event.
const (
	openEventsSQL     = `SELECT FROM eventhook.event WHERE id >= $1 AND id < $2 AND due_at IS NOT NULL`
	openDeliveriesSQL = `SELECT FROM eventhook.delivery WHERE id >= $1 AND id < $2 AND due_at IS NOT NULL`
)

// releasedDeliveriesSQL finds deliveries in the partition %s that a replay has queued since $3.
// They count from then, so that a later replay does not take them for missing. It names the
// partition, since with bounds of ids the planner would choose the primary key and read all
// deliveries of the day. Index delivery_released.
const releasedDeliveriesSQL = `SELECT FROM eventhook.%s WHERE released_by IS NOT NULL AND restarted_at >= $3`

// partitionedTable is a partitioned table. released is "" or a query, with a verb for the name of
// the partition, for rows that are kept longer.
type partitionedTable struct{ table, key, open, released string }

// keeps returns a query for rows because of which a partition is not dropped, and its
// arguments. oldest is the end of the retention.
func (p partitionedTable) keeps(d, oldest time.Time) (sql string, args []any) {
	lo, hi := bounds(d)
	sql, args = p.open, []any{[16]byte(lo), [16]byte(hi)}
	if p.released != "" {
		sql, args = sql+` UNION ALL `+fmt.Sprintf(p.released, partitionName(p.table, d)), append(args, oldest)
	}
	return `SELECT EXISTS (` + sql + `)`, args
}

// Retention is for how many days events, bodies and deliveries are stored; 0 means for ever.
// If BodiesDays is 0, bodies are stored as long as their events. A delivery has the day of its
// event. If it is restarted, its day is kept until the delivery ends, and if a replay queued it, for as
// long as it would be stored from then on.
type Retention struct {
	EventsDays     int
	BodiesDays     int
	DeliveriesDays int
}

func (r Retention) days(table string) int {
	switch {
	case table == "delivery":
		return r.DeliveriesDays
	case table == "event_payload" && r.BodiesDays > 0:
		return r.BodiesDays
	}
	return r.EventsDays
}

const day = 24 * time.Hour

// MaintainPartitions creates the partitions of today and of the next ahead days, moves rows of
// the default partition to partitions of their own days, and drops partitions that are past
// their retention and hold no open work. It waits only briefly for locks, so that it never
// blocks accepting for long. A failure for one partition does not stop the work on the other
// ones; MaintainPartitions returns all errors, and the next run tries again. Instances run it
// one after another.
func (db *DB) MaintainPartitions(ctx context.Context, ahead int, r Retention) error {
	today := db.now().UTC().Truncate(day)
	var errs []error
	for _, p := range partitioned {
		wanted, err := db.strayDays(ctx, p.table, p.key)
		if err != nil {
			errs = append(errs, err)
		}
		for i := range ahead + 1 {
			wanted = append(wanted, today.Add(time.Duration(i)*day))
		}
		have, err := partitionsOf(ctx, db.work, p.table)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		for _, d := range wanted {
			if !have[partitionName(p.table, d)] {
				errs = append(errs, db.addPartition(ctx, p, d))
			}
		}
	}
	// Partitions are dropped after they were added: rows of the default partition may have
	// moved to partitions that are past their retention.
	for _, p := range partitioned {
		errs = append(errs, db.dropPartitions(ctx, p, today, r.days(p.table)))
	}
	return errors.Join(errs...)
}

func partitionName(table string, d time.Time) string { return table + "_" + d.Format("20060102") }

// querier is a pool or a transaction.
type querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

func partitionsOf(ctx context.Context, q querier, table string) (map[string]bool, error) {
	rows, err := q.Query(ctx, `SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
		WHERE i.inhparent = ('eventhook.' || $1)::regclass`, table)
	if err != nil {
		return nil, translate("list partitions", err)
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	have := make(map[string]bool, len(names))
	for _, n := range names {
		have[n] = true
	}
	return have, translate("list partitions", err)
}

// strayDays returns the days of up to 1 000 rows in the default partition.
func (db *DB) strayDays(ctx context.Context, table, key string) ([]time.Time, error) {
	rows, err := db.work.Query(ctx, fmt.Sprintf(`SELECT DISTINCT substr(%[2]s::text, 1, 8) || substr(%[2]s::text, 10, 4)
		FROM (SELECT %[2]s FROM eventhook.%[1]s_default LIMIT 1000) d`, table, key))
	if err != nil {
		return nil, translate("read the default partition", err)
	}
	heads, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, translate("read the default partition", err)
	}
	seen := map[time.Time]bool{}
	var days []time.Time
	for _, head := range heads {
		var id eventhook.EventID
		if _, err := hex.Decode(id[:6], []byte(head)); err != nil {
			return nil, fmt.Errorf("read the default partition: %w", err)
		}
		if d := id.Time().Truncate(day); !seen[d] {
			seen[d] = true
			days = append(days, d)
		}
	}
	return days, nil
}

// addPartition creates a table like the parent, moves the rows of its day from the default
// partition, and attaches it. Attaching locks the default partition and not the parent, so
// accepting continues.
func (db *DB) addPartition(ctx context.Context, p partitionedTable, d time.Time) error {
	bare := partitionName(p.table, d)
	name := pgx.Identifier{"eventhook", bare}.Sanitize()
	lo, hi := bounds(d)
	between := fmt.Sprintf("%s >= '%s' AND %[1]s < '%[3]s'", p.key, lo, hi)
	return db.maintain(ctx, "add partition "+bare, func(tx pgx.Tx) error {
		have, err := partitionsOf(ctx, tx, p.table)
		if err != nil || have[bare] {
			return err
		}
		return execAll(ctx, tx,
			fmt.Sprintf(`CREATE TABLE %s (LIKE eventhook.%s INCLUDING ALL)`, name, p.table),
			fmt.Sprintf(`LOCK TABLE eventhook.%s_default IN ACCESS EXCLUSIVE MODE`, p.table),
			fmt.Sprintf(`WITH stray AS (DELETE FROM eventhook.%s_default WHERE %s RETURNING *) INSERT INTO %s SELECT * FROM stray`, p.table, between, name),
			fmt.Sprintf(`ALTER TABLE eventhook.%s ATTACH PARTITION %s FOR VALUES FROM ('%s') TO ('%s')`, p.table, name, lo, hi))
	})
}

// bounds returns the first id of a day and of the next day.
func bounds(d time.Time) (lo, hi eventhook.EventID) {
	return eventhook.FirstID[eventhook.Event](d), eventhook.FirstID[eventhook.Event](d.Add(day))
}

func (db *DB) dropPartitions(ctx context.Context, p partitionedTable, today time.Time, days int) error {
	if days <= 0 {
		return nil
	}
	have, err := partitionsOf(ctx, db.work, p.table)
	if err != nil {
		return err
	}
	oldest := today.AddDate(0, 0, -days)
	var errs []error
	for name := range have {
		d, err := time.Parse("20060102", strings.TrimPrefix(name, p.table+"_"))
		if err == nil && !d.Add(day).After(oldest) {
			errs = append(errs, db.dropPartition(ctx, p, d, oldest))
		}
	}
	return errors.Join(errs...)
}

// dropPartition drops the partition of a day unless it holds open work. It checks once without
// locks, and once more under the lock of the parent that dropping takes anyway: work that is
// restarted in between is not lost.
func (db *DB) dropPartition(ctx context.Context, p partitionedTable, d, oldest time.Time) error {
	name := partitionName(p.table, d)
	sql, args := p.keeps(d, oldest)
	var isOpen bool
	check := func(q interface {
		QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
	},
	) error {
		return q.QueryRow(ctx, sql, args...).Scan(&isOpen)
	}
	if err := check(db.work); err != nil {
		return translate("check for open work in "+name, err)
	}
	if !isOpen {
		err := db.maintain(ctx, "drop partition "+name, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, `LOCK TABLE ONLY eventhook.`+p.table+` IN ACCESS EXCLUSIVE MODE`); err != nil {
				return err
			}
			if err := check(tx); err != nil || isOpen {
				return err
			}
			return execAll(ctx, tx, `DROP TABLE IF EXISTS `+pgx.Identifier{"eventhook", name}.Sanitize())
		})
		if err != nil {
			return err
		}
	}
	if isOpen {
		if _, isKnown := db.keptPartitions.LoadOrStore(name, true); !isKnown {
			db.log.Info("a partition past its retention is kept, since it holds open work or replayed deliveries", "partition", name)
		}
		return nil
	}
	db.observer.PartitionDropped(p.table)
	db.log.Info("dropped a partition past its retention", "partition", name)
	return nil
}

// lockWait is how long maintenance waits for a lock. Statements that queue behind it wait as
// long.
const lockWait = 2 * time.Second

// maintain runs do in a transaction that waits at most lockWait for a lock. Only one such
// transaction runs at a time, across all instances.
func (db *DB) maintain(ctx context.Context, act string, do func(pgx.Tx) error) error {
	return db.inTx(ctx, act, func(tx pgx.Tx) error {
		const lock = `SELECT pg_advisory_xact_lock(1702258795)` // "evhk"
		if err := execAll(ctx, tx, fmt.Sprintf(`SET LOCAL lock_timeout = %d`, db.lockWait.Milliseconds()), lock); err != nil {
			return err
		}
		return do(tx)
	})
}

func execAll(ctx context.Context, tx pgx.Tx, statements ...string) error {
	for _, sql := range statements {
		if _, err := tx.Exec(ctx, sql); err != nil {
			return err
		}
	}
	return nil
}
