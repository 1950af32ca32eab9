package main

import (
	"context"
	"fmt"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/jackc/pgx/v5"
)

// stats queries the database of a gateway.
type stats struct{ conn *pgx.Conn }

type counters struct{ transactions, wal float64 }

func (s *stats) read(ctx context.Context) (c counters, err error) {
	err = s.conn.QueryRow(ctx, `SELECT sum(xact_commit)::float8, pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::float8
		FROM pg_stat_database WHERE datname = current_database()`).Scan(&c.transactions, &c.wal)
	return c, err
}

// waitProcessed waits until no event is open.
func (s *stats) waitProcessed(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	for {
		var open bool
		if err := s.conn.QueryRow(ctx, `SELECT EXISTS (SELECT FROM eventhook.event WHERE due_at IS NOT NULL)`).Scan(&open); err != nil {
			return err
		}
		if !open {
			return nil
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// waitSettled waits until no event and no delivery is open. It returns the number of
// its queries.
func (s *stats) waitSettled(ctx context.Context) (queries int, err error) {
	const patience, pause = 5 * time.Minute, 10 * time.Millisecond
	const share = 20 // the queries take at most 1/share of the time, so that they change little
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for ; ; queries++ {
		var open bool
		began := time.Now()
		if err := s.conn.QueryRow(ctx, `SELECT EXISTS (SELECT FROM eventhook.event WHERE due_at IS NOT NULL)
			OR EXISTS (SELECT FROM eventhook.delivery WHERE due_at IS NOT NULL)`).Scan(&open); err != nil {
			return queries, fmt.Errorf("wait for deliveries: %w", err)
		}
		if !open {
			return queries, nil
		}
		time.Sleep(max(pause, share*time.Since(began)))
	}
}

// processingTimes returns, for each event of the tenant from the id from on, the time
// between its receipt and the end of its processing. It waits until all of them are processed.
func (s *stats) processingTimes(ctx context.Context, from eventhook.EventID) ([]time.Duration, error) {
	const sql = `SELECT e.id, e.processed_at FROM eventhook.event e JOIN eventhook.tenant t ON t.id = e.tenant_id
WHERE t.slug = $1 AND e.id >= $2`
	for wait := time.Now().Add(time.Minute); ; {
		rows, err := s.conn.Query(ctx, sql, benchTenant, [16]byte(from))
		if err != nil {
			return nil, err
		}
		open := 0
		times, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (time.Duration, error) {
			var id eventhook.EventID
			var at *time.Time
			if err := row.Scan((*[16]byte)(&id), &at); err != nil {
				return 0, err
			}
			if at == nil {
				open++
				return 0, nil
			}
			return at.Sub(id.Time()), nil
		})
		switch {
		case err != nil:
			return nil, err
		case open == 0 && len(times) > 0:
			return times, nil
		case time.Now().After(wait):
			return nil, fmt.Errorf("%d of %d events are not processed", open, len(times))
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// hold makes the database store no events until release is called.
func (s *stats) hold(ctx context.Context) (release func() error, err error) {
	tx, err := s.conn.Begin(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := tx.Exec(ctx, `LOCK TABLE eventhook.event IN EXCLUSIVE MODE`); err != nil {
		_ = tx.Rollback(ctx)
		return nil, err
	}
	return func() error { return tx.Rollback(ctx) }, nil
}

// stored returns the number of events from the id first on.
func (s *stats) stored(ctx context.Context, first eventhook.EventID) (n int, err error) {
	err = s.conn.QueryRow(ctx, `SELECT count(*) FROM eventhook.event WHERE id >= $1`, [16]byte(first)).Scan(&n)
	return n, err
}

// waitStored waits until there are as many events from the id first on as were accepted. More are an
// error.
func (s *stats) waitStored(ctx context.Context, first eventhook.EventID, accepted int) error {
	const patience, pause, share = 2 * time.Minute, 10 * time.Millisecond, 10 // the queries take at most 1/share of the time
	for until := time.Now().Add(patience); ; {
		began := time.Now()
		n, err := s.stored(ctx, first)
		switch {
		case err != nil:
			return err
		case n == accepted:
			return nil
		case n > accepted || time.Now().After(until):
			return fmt.Errorf("%d events were accepted, and %d are in the database", accepted, n)
		}
		time.Sleep(max(pause, share*time.Since(began)))
	}
}
