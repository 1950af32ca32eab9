package pg

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
)

// Diagnosis is the state of a database as Diagnose found it.
type Diagnosis struct {
	Version    int               // such as 160004
	Settings   map[string]string // by name; see diagnosedSettings
	IsReplica  bool              // or read-only for another reason
	Encoding   string
	Bytes      int64
	ClockAhead time.Duration // of the database, before the clock of this program; within RoundTrip
	RoundTrip  time.Duration

	Connections     int // of all clients
	UserConnections int // that clients of the role may open; -1: no limit

	HasSchema  bool
	Schema     int64    // its version
	IsDirty    bool     // a migration runs, or stopped in the middle
	MayMigrate bool     // the role may create the schema, or change its tables
	Lacking    []string // privileges on tables of the schema that the role lacks, such as "SELECT on event"

	Partitions []PartitionState
}

// PartitionState is the state of a partitioned table.
type PartitionState struct {
	Table      string
	Missing    []string // names of the partitions of the next days that do not exist
	HasDefault bool     // the default partition has rows
	Expired    []string // names of partitions that are past their retention
}

// diagnosedSettings are the settings that Diagnosis.Settings has.
var diagnosedSettings = []string{"synchronous_commit", "fsync", "full_page_writes", "autovacuum", "track_counts", "max_connections",
	"superuser_reserved_connections", "statement_timeout", "idle_in_transaction_session_timeout", "max_prepared_transactions"}

// Diagnose connects to a database and describes it. It changes nothing: all its statements run in
// one read-only transaction. ahead is the number of days for which partitions should exist.
func Diagnose(ctx context.Context, url string, now func() time.Time, ahead int, r Retention) (d Diagnosis, err error) {
	conn, err := probeConn(ctx, url)
	if err != nil {
		return d, err
	}
	defer closeProbe(conn)
	err = pgx.BeginTxFunc(ctx, conn, pgx.TxOptions{AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		for _, read := range []func(context.Context, pgx.Tx) error{d.readServer, d.readSchema} {
			if err := read(ctx, tx); err != nil {
				return err
			}
		}
		if d.HasSchema {
			if err := d.readPrivileges(ctx, tx); err != nil {
				return err
			}
			if err := d.readPartitions(ctx, tx, now(), ahead, r); err != nil {
				return err
			}
		}
		return d.readClock(ctx, tx, now)
	})
	return d, err
}

// readServerSQL reads one row. $1 has the names of settings.
const readServerSQL = `
SELECT current_setting('server_version_num')::int, pg_is_in_recovery() OR current_setting('default_transaction_read_only')::boolean,
    pg_encoding_to_char(d.encoding), pg_database_size(d.oid),
    (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend')::int, r.rolconnlimit,
    has_database_privilege(d.oid, 'CREATE'), to_regnamespace('eventhook') IS NOT NULL
FROM pg_database d, pg_roles r WHERE d.datname = current_database() AND r.rolname = current_user`

func (d *Diagnosis) readServer(ctx context.Context, tx pgx.Tx) error {
	err := tx.QueryRow(ctx, readServerSQL).Scan(&d.Version, &d.IsReplica, &d.Encoding, &d.Bytes, &d.Connections, &d.UserConnections,
		&d.MayMigrate, &d.HasSchema)
	if err != nil {
		return fmt.Errorf("read the server's state: %w", err)
	}
	rows, err := tx.Query(ctx, `SELECT name, current_setting(name) FROM pg_settings WHERE name = ANY($1)`, diagnosedSettings)
	if err != nil {
		return fmt.Errorf("read the settings: %w", err)
	}
	d.Settings = map[string]string{}
	var name, value string
	_, err = pgx.ForEachRow(rows, []any{&name, &value}, func() error {
		d.Settings[name] = value
		return nil
	})
	return err
}

func (d *Diagnosis) readSchema(ctx context.Context, tx pgx.Tx) error {
	if !d.HasSchema {
		return nil
	}
	var exists bool
	err := tx.QueryRow(ctx, `SELECT to_regclass('eventhook.schema_migrations') IS NOT NULL`).Scan(&exists)
	if err != nil || !exists {
		d.HasSchema = false
		return err
	}
	err = tx.QueryRow(ctx, `SELECT version, dirty FROM eventhook.schema_migrations`).Scan(&d.Schema, &d.IsDirty)
	if errors.Is(err, pgx.ErrNoRows) {
		d.HasSchema, err = false, nil
	}
	return err
}

// readPrivilegesSQL finds the privileges that the role lacks. Partitions are created and dropped
// by the owner of their table.
const readPrivilegesSQL = `
SELECT p.privilege || ' on ' || c.relname
FROM pg_class c, unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE']) AS p (privilege)
WHERE c.relnamespace = 'eventhook'::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition
    AND NOT has_table_privilege(c.oid, p.privilege)
UNION ALL
SELECT 'ownership of ' || c.relname FROM pg_class c
WHERE c.relnamespace = 'eventhook'::regnamespace AND c.relkind = 'p' AND NOT pg_has_role(c.relowner, 'USAGE')
UNION ALL
SELECT 'CREATE on schema eventhook' WHERE NOT has_schema_privilege('eventhook', 'CREATE')
ORDER BY 1`

func (d *Diagnosis) readPrivileges(ctx context.Context, tx pgx.Tx) error {
	rows, err := tx.Query(ctx, readPrivilegesSQL)
	if err != nil {
		return fmt.Errorf("read the privileges: %w", err)
	}
	if d.Lacking, err = pgx.CollectRows(rows, pgx.RowTo[string]); err != nil {
		return fmt.Errorf("read the privileges: %w", err)
	}
	d.MayMigrate = !slices.Contains(d.Lacking, "CREATE on schema eventhook")
	return nil
}

func (d *Diagnosis) readPartitions(ctx context.Context, tx pgx.Tx, now time.Time, ahead int, r Retention) error {
	today := now.UTC().Truncate(day)
	for _, p := range partitioned {
		state := PartitionState{Table: p.table}
		have, err := partitionsOf(ctx, tx, p.table)
		if err != nil {
			return err
		}
		for i := range ahead + 1 {
			if name := partitionName(p.table, today.Add(time.Duration(i)*day)); !have[name] {
				state.Missing = append(state.Missing, name)
			}
		}
		if keep := r.days(p.table); keep > 0 {
			oldest := partitionName(p.table, today.Add(-time.Duration(keep+1)*day))
			for name := range have {
				if len(name) == len(oldest) && name < oldest {
					state.Expired = append(state.Expired, name)
				}
			}
			slices.Sort(state.Expired)
		}
		if have[p.table+"_default"] {
			if err := tx.QueryRow(ctx, `SELECT EXISTS (SELECT FROM eventhook.`+p.table+`_default)`).Scan(&state.HasDefault); err != nil {
				return fmt.Errorf("read the default partition of %s: %w", p.table, err)
			}
		}
		d.Partitions = append(d.Partitions, state)
	}
	return nil
}

// readClock compares the clocks. The fastest of three answers counts.
func (d *Diagnosis) readClock(ctx context.Context, tx pgx.Tx, now func() time.Time) error {
	const tries = 3
	for i := range tries {
		before := now()
		var there time.Time
		if err := tx.QueryRow(ctx, `SELECT clock_timestamp()`).Scan(&there); err != nil {
			return fmt.Errorf("read the clock: %w", err)
		}
		if took := now().Sub(before); i == 0 || took < d.RoundTrip {
			d.RoundTrip, d.ClockAhead = took, there.Sub(before.Add(took/2))
		}
	}
	return nil
}
