package pg

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/eventhook/eventhook"
)

// partitioned are the tables partitioned by the time in an id, each with the
// column and with what must not be owed any more in a partition that goes.
// $1 and $2 are its bounds.
var partitioned = []partitionedTable{
	// Subscribers are told of an event what it and its body say.
	{"event", "id", openEventsSQL + ` UNION ALL ` + openDeliveriesSQL},
	{"event_action", "event_id", openEventsSQL},
	// A body is also the input of the executions that were made of it.
	{"event_payload", "event_id", openEventsSQL + ` UNION ALL ` + openDeliveriesSQL + `
		UNION ALL SELECT FROM eventhook.execution WHERE event_id >= $1 AND event_id < $2 AND completed_at IS NULL`},
	{"delivery", "id", openDeliveriesSQL},
}

// A delivery has its event's day.
const (
	openEventsSQL     = `SELECT FROM eventhook.event WHERE id >= $1 AND id < $2 AND due_at IS NOT NULL`
	openDeliveriesSQL = `SELECT FROM eventhook.delivery WHERE id >= $1 AND id < $2 AND due_at IS NOT NULL`
)

type partitionedTable struct{ table, key, owed string }

// Retention says for how many days events, bodies and deliveries are kept; 0
// keeps them, though no body is kept longer than its event unless BodiesDays
// says so. A delivery's day is its event's: one that a person has begun anew
// keeps its day until it has ended.
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

// MaintainPartitions makes the partitions of today and the days ahead, moves into
// partitions what the default one holds, and drops partitions past their
// retention in which nothing is owed. It waits briefly for locks, so that it
// never holds up the accept path for long. What it cannot do for one partition
// does not keep it from the others; it returns those errors, and the next run
// tries again. Instances take turns, and find done what another has done.
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
		have, err := db.partitions(ctx, db.work, p.table)
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
	// Only then, since a stray of old may be in a partition now.
	for _, p := range partitioned {
		errs = append(errs, db.dropPartitions(ctx, p, today, r.days(p.table)))
	}
	return errors.Join(errs...)
}

func partitionName(table string, d time.Time) string { return table + "_" + d.Format("20060102") }

// querier is a pool or a transaction.
type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

func (db *DB) partitions(ctx context.Context, q querier, table string) (map[string]bool, error) {
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

// strayDays are the days of up to 1 000 rows in the default partition.
func (db *DB) strayDays(ctx context.Context, table, key string) ([]time.Time, error) {
	rows, err := db.work.Query(ctx, fmt.Sprintf(`SELECT DISTINCT substr(%[2]s::text, 1, 8) || substr(%[2]s::text, 10, 4)
		FROM (SELECT %[2]s FROM eventhook.%[1]s_default LIMIT 1000) d`, table, key))
	if err != nil {
		return nil, translate("look into the default partition", err)
	}
	heads, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, translate("look into the default partition", err)
	}
	seen := map[time.Time]bool{}
	var days []time.Time
	for _, head := range heads {
		var id eventhook.EventID
		if _, err := hex.Decode(id[:6], []byte(head)); err != nil {
			return nil, fmt.Errorf("look into the default partition: %w", err)
		}
		if d := id.Time().Truncate(day); !seen[d] {
			seen[d] = true
			days = append(days, d)
		}
	}
	return days, nil
}

// addPartition makes a table like the parent, moves the default partition's
// rows of its time there, and attaches it. Attaching locks the default
// partition, not the parent, so accepting goes on.
func (db *DB) addPartition(ctx context.Context, p partitionedTable, d time.Time) error {
	bare := partitionName(p.table, d)
	name := pgx.Identifier{"eventhook", bare}.Sanitize()
	lo, hi := bounds(d)
	between := fmt.Sprintf("%s >= '%s' AND %[1]s < '%[3]s'", p.key, lo, hi)
	return db.maintain(ctx, "add partition "+bare, func(tx pgx.Tx) error {
		have, err := db.partitions(ctx, tx, p.table)
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

// bounds are the first id of a day and of the next.
func bounds(d time.Time) (lo, hi eventhook.EventID) {
	return eventhook.FirstID[eventhook.Event](d), eventhook.FirstID[eventhook.Event](d.Add(day))
}

func (db *DB) dropPartitions(ctx context.Context, p partitionedTable, today time.Time, days int) error {
	if days <= 0 {
		return nil
	}
	have, err := db.partitions(ctx, db.work, p.table)
	if err != nil {
		return err
	}
	oldest := today.AddDate(0, 0, -days)
	var errs []error
	for name := range have {
		d, err := time.Parse("20060102", strings.TrimPrefix(name, p.table+"_"))
		if err == nil && !d.Add(day).After(oldest) {
			errs = append(errs, db.dropPartition(ctx, p, d))
		}
	}
	return errors.Join(errs...)
}

// dropPartition drops a day unless work in it is owed. It asks once at no cost
// to anybody, and once more under the lock that dropping takes anyway, on the
// parent: what a person retries in between is not lost.
func (db *DB) dropPartition(ctx context.Context, p partitionedTable, d time.Time) error {
	name := partitionName(p.table, d)
	var isOwed bool
	ask := func(q interface {
		QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
	},
	) error {
		lo, hi := bounds(d)
		return q.QueryRow(ctx, `SELECT EXISTS (`+p.owed+`)`, [16]byte(lo), [16]byte(hi)).Scan(&isOwed)
	}
	if err := ask(db.work); err != nil {
		return translate("look for owed work in "+name, err)
	}
	if !isOwed {
		err := db.maintain(ctx, "drop partition "+name, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, `LOCK TABLE ONLY eventhook.`+p.table+` IN ACCESS EXCLUSIVE MODE`); err != nil {
				return err
			}
			if err := ask(tx); err != nil || isOwed {
				return err
			}
			return execAll(ctx, tx, `DROP TABLE IF EXISTS `+pgx.Identifier{"eventhook", name}.Sanitize())
		})
		if err != nil {
			return err
		}
	}
	if isOwed {
		db.log.Warn("a partition past its retention is kept: work in it is still owed", "partition", name)
		return nil
	}
	db.log.Info("dropped a partition past its retention", "partition", name)
	return nil
}

// lockWait is how long maintenance waits for a lock; who comes after it waits
// as long.
const lockWait = 2 * time.Second

// maintain runs do in a transaction that waits at most lockWait for a lock, and
// of which only one runs at a time, whatever the instance.
func (db *DB) maintain(ctx context.Context, act string, do func(pgx.Tx) error) error {
	return db.inTx(ctx, act, func(tx pgx.Tx) error {
		const turn = `SELECT pg_advisory_xact_lock(1702258795)` // "evhk"
		if err := execAll(ctx, tx, fmt.Sprintf(`SET LOCAL lock_timeout = %d`, db.lockWait.Milliseconds()), turn); err != nil {
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
