package pg

import (
	"context"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/eventhook/eventhook"
)

// Pool returns the state of a pool by its name in the metrics, the zero value for a pool that is
// not in use.
func (db *DB) Pool(name string) eventhook.PoolStats {
	var p *pgxpool.Pool
	switch name {
	case "accept":
		p = db.accept
	case "work":
		p = db.work
	case "lists":
		p = db.lists.Pool
	case "read":
		if db.replica != nil {
			p = db.replica.pool.Pool
		}
	}
	if p == nil {
		return eventhook.PoolStats{}
	}
	s := p.Stat()
	return eventhook.PoolStats{Idle: int(s.IdleConns()), Used: int(s.AcquiredConns()), Max: int(s.MaxConns()), Waited: s.EmptyAcquireWaitTime()}
}

// Time returns the time of the database. The error says that the database cannot be reached.
func (db *DB) Time(ctx context.Context) (at time.Time, err error) {
	const timeout = 5 * time.Second
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	err = db.lists.QueryRow(ctx, `SELECT clock_timestamp()`).Scan(&at)
	return at, translate("read the clock of the database", err)
}

// Bytes returns the size of the database.
func (db *DB) Bytes(ctx context.Context) (n int64, err error) {
	err = db.lists.QueryRow(ctx, `SELECT pg_database_size(current_database())`).Scan(&n)
	return n, translate("read the size of the database", err)
}

// Sizes returns the size of the database and its partitions.
func (db *DB) Sizes(ctx context.Context) (eventhook.DatabaseSizes, error) {
	sizes := eventhook.DatabaseSizes{Partitions: map[string]int{}, HasNextDays: map[string]bool{}}
	var err error
	if sizes.Bytes, err = db.Bytes(ctx); err != nil {
		return sizes, err
	}
	tomorrow := db.now().UTC().Add(day)
	for _, p := range partitioned {
		have, err := partitionsOf(ctx, db.lists, p.table)
		if err != nil {
			return sizes, err
		}
		sizes.HasNextDays[p.table] = have[partitionName(p.table, tomorrow)]
		for name := range have {
			if !strings.HasSuffix(name, "_default") {
				sizes.Partitions[p.table]++
			}
		}
	}
	return sizes, nil
}
