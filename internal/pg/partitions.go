package pg

import (
	"context"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/eventhook/eventhook"
)

// partitioned are the tables partitioned by the time in an id, each with the
// column and with what must not be owed any more in a partition that goes.
// $1 and $2 are its bounds.
var partitioned = []struct{ table, key, owed string }{
	{"event", "id", `SELECT FROM eventhook.event WHERE id >= $1 AND id < $2 AND due_at IS NOT NULL`},
	{"event_action", "event_id", `SELECT FROM eventhook.event WHERE id >= $1 AND id < $2 AND due_at IS NOT NULL`},
	// A body is also the input of the executions that were made of it.
	{"event_payload", "event_id", `SELECT FROM eventhook.event WHERE id >= $1 AND id < $2 AND due_at IS NOT NULL
		UNION ALL SELECT FROM eventhook.execution WHERE event_id >= $1 AND event_id < $2 AND completed_at IS NULL`},
}

// Retention says for how many days events and bodies are kept; 0 keeps them.
type Retention struct {
	EventsDays int
	BodiesDays int
}

func (r Retention) days(table string) int {
	if table == "event_payload" && r.BodiesDays > 0 {
		return r.BodiesDays
	}
	if table == "event_payload" && r.EventsDays == 0 {
		return 0
	}
	return r.EventsDays
}

const day = 24 * time.Hour

// KeepPartitions makes the partitions of today and the days ahead, moves into
// them what the default partition holds of their time, and drops partitions
// past their retention in which nothing is owed. It waits briefly for locks,
// so that it never holds up the accept path, and reports what it could not do;
// the next run tries again. Instances take turns.
func (db *DB) KeepPartitions(ctx context.Context, ahead int, r Retention) error {
	today := db.now().UTC().Truncate(day)
	for _, p := range partitioned {
		have, err := db.partitions(ctx, p.table)
		if err != nil {
			return err
		}
		wanted, err := db.strayDays(ctx, p.table, p.key)
		if err != nil {
			return err
		}
		for i := range ahead + 1 {
			wanted = append(wanted, today.Add(time.Duration(i)*day))
		}
		for _, d := range wanted {
			if !have[partitionName(p.table, d)] {
				if err := db.addPartition(ctx, p.table, p.key, d); err != nil {
					return err
				}
				have[partitionName(p.table, d)] = true
			}
		}
		if err := db.dropPartitions(ctx, p.table, p.owed, have, today, r.days(p.table)); err != nil {
			return err
		}
	}
	return nil
}

func partitionName(table string, d time.Time) string { return table + "_" + d.Format("20060102") }

func (db *DB) partitions(ctx context.Context, table string) (map[string]bool, error) {
	rows, err := db.work.Query(ctx, `SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
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
func (db *DB) addPartition(ctx context.Context, table, key string, d time.Time) error {
	name := pgx.Identifier{"eventhook", partitionName(table, d)}.Sanitize()
	lo, hi := eventhook.FirstID[eventhook.Event](d), eventhook.FirstID[eventhook.Event](d.Add(day))
	between := fmt.Sprintf("%s >= '%s' AND %[1]s < '%[3]s'", key, lo, hi)
	return db.maintain(ctx, "add partition "+name,
		fmt.Sprintf(`CREATE TABLE IF NOT EXISTS %s (LIKE eventhook.%s INCLUDING ALL)`, name, table),
		fmt.Sprintf(`LOCK TABLE eventhook.%s_default IN ACCESS EXCLUSIVE MODE`, table),
		fmt.Sprintf(`WITH stray AS (DELETE FROM eventhook.%s_default WHERE %s RETURNING *) INSERT INTO %s SELECT * FROM stray`, table, between, name),
		fmt.Sprintf(`ALTER TABLE eventhook.%s ATTACH PARTITION %s FOR VALUES FROM ('%s') TO ('%s')`, table, name, lo, hi))
}

func (db *DB) dropPartitions(ctx context.Context, table, owed string, have map[string]bool, today time.Time, days int) error {
	if days <= 0 {
		return nil
	}
	for name := range have {
		d, err := time.Parse("20060102", strings.TrimPrefix(name, table+"_"))
		if err != nil || !d.Add(day).Before(today.AddDate(0, 0, -days).Add(time.Nanosecond)) {
			continue
		}
		lo, hi := eventhook.FirstID[eventhook.Event](d), eventhook.FirstID[eventhook.Event](d.Add(day))
		var isOwed bool
		if err := db.work.QueryRow(ctx, `SELECT EXISTS (`+owed+`)`, [16]byte(lo), [16]byte(hi)).Scan(&isOwed); err != nil {
			return translate("look for owed work in "+name, err)
		}
		if isOwed {
			db.log.Warn("a partition past its retention is kept: work in it is still owed", "partition", name)
			continue
		}
		if err := db.maintain(ctx, "drop partition "+name, `DROP TABLE IF EXISTS `+pgx.Identifier{"eventhook", name}.Sanitize()); err != nil {
			return err
		}
		db.log.Info("dropped a partition past its retention", "partition", name)
	}
	return nil
}

// maintain runs statements in a transaction that waits at most two seconds for
// a lock, and of which only one runs at a time, whatever the instance.
func (db *DB) maintain(ctx context.Context, act string, statements ...string) error {
	return db.inTx(ctx, act, func(tx pgx.Tx) error {
		for _, sql := range append([]string{"SET LOCAL lock_timeout = '2s'", "SELECT pg_advisory_xact_lock(0x6576686b)"}, statements...) {
			if _, err := tx.Exec(ctx, sql); err != nil {
				return err
			}
		}
		return nil
	})
}
