package pg

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/eventhook/eventhook"
)

// replica reads lists from a streaming replica, as long as it has every change of the primary
// that is older than maxLag.
//
// WatchReplica compares positions of the write-ahead log. It reads the position of the primary
// and remembers when. Once the replica has replayed this position, it has every change that was
// committed before that moment. So the bound depends neither on the clocks of the servers nor on
// changes while the primary is idle. The replica may be used until this moment is maxLag ago.
type replica struct {
	pool     *listPool
	maxLag   time.Duration
	now      func() time.Time
	position []walPosition             // of the primary, the oldest first; used by WatchReplica only
	until    atomic.Pointer[time.Time] // the replica may be used before; nil: it may not be used
}

// walPosition is a position in the write-ahead log of the primary. Every change that was committed
// before the moment at is before the position.
type walPosition struct {
	at      time.Time
	lsn     int64
	cluster int64 // the system identifier, which a primary and its replicas share
}

func newReplica(ctx context.Context, o Options, now func() time.Time) (*replica, error) {
	if o.ReadURL == "" {
		return nil, nil //nolint:nilnil // there is no replica
	}
	pool, err := newListPool(ctx, o.ReadURL, o.ListConns, true)
	if err != nil {
		return nil, err
	}
	return &replica{pool: pool, maxLag: o.ReadMaxLag, now: now}, nil
}

// replicaTimeout is longer than the timeout of a list's statement.
const replicaTimeout = 7 * time.Second

// list reads a list from the replica if it is fresh enough, and otherwise from the primary. If
// the replica fails, list reads from the primary, too. read may therefore be called twice.
func (db *DB) list(ctx context.Context, read func(context.Context, *listPool) error) error {
	r := db.replica
	if r == nil || !r.isFresh() {
		return read(ctx, db.lists)
	}
	limited, cancel := context.WithTimeout(ctx, replicaTimeout)
	defer cancel()
	err := read(limited, r.pool)
	if err == nil || ctx.Err() != nil || !isReplicaFault(err) {
		return err
	}
	if isDown(err) || limited.Err() != nil {
		r.until.Store(nil) // until WatchReplica reaches it again
	}
	return read(ctx, db.lists)
}

// isReplicaFault reports whether the primary may answer although the replica does not. A list
// that takes too long takes as long there.
func isReplicaFault(err error) bool {
	return eventhook.KindOf(err) == "" && !errors.Is(err, pgx.ErrNoRows) && !hasCode(err, codeQueryCanceled)
}

// IsReplicaUsed reports whether lists are read from the replica now. It is false without a replica.
func (db *DB) IsReplicaUsed() bool { return db.replica != nil && db.replica.isFresh() }

// ReplicaLag returns an upper bound of the age of the replica's data. ok is false if there is no
// replica, or if it was not reached.
func (db *DB) ReplicaLag() (lag time.Duration, ok bool) {
	if db.replica == nil {
		return 0, false
	}
	until := db.replica.until.Load()
	if until == nil {
		return 0, false
	}
	return max(0, db.replica.maxLag-until.Sub(db.replica.now())), true
}

func (r *replica) isFresh() bool {
	until := r.until.Load()
	return until != nil && r.now().Before(*until)
}

// WatchReplica measures how far the replica is behind, until ctx ends. It logs when lists are
// read from the primary, and when they are read from the replica again. Without a replica it
// does nothing.
func (db *DB) WatchReplica(ctx context.Context) error {
	r := db.replica
	if r == nil {
		return nil
	}
	const perLag, longest = 5, time.Second
	interval := min(r.maxLag/perLag, longest)
	tick := time.NewTicker(interval)
	defer tick.Stop()
	before := errReplicaNotRead // the last reason to read from the primary
	for ctx.Err() == nil {
		reason := db.checkReplica(ctx)
		switch {
		case ctx.Err() != nil:
		case reason != nil && (before == nil || errors.Is(before, errReplicaNotRead)):
			db.log.Warn("lists are read from the primary", "reason", reason)
		case reason == nil && before != nil:
			db.log.Info("lists are read from the replica")
		}
		before = reason
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
	return nil
}

var (
	errReplicaNotRead = errors.New("the replica was not read yet")
	errNoReplica      = errors.New("DATABASE_READ_URL is not a streaming replica of this database")
)

// checkReplica reads both positions and decides until when the replica may be used. It returns
// the reason if the replica may not be used now.
func (db *DB) checkReplica(ctx context.Context) error {
	const timeout = 2 * time.Second
	r := db.replica
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if err := r.readPrimary(ctx, db.lists); err != nil {
		return r.stale(fmt.Errorf("read the position of the primary: %w", err))
	}
	replayed, err := r.readReplayed(ctx)
	if err != nil {
		r.until.Store(nil)
		return err
	}
	for len(r.position) > 1 && r.position[1].lsn <= replayed {
		r.position = r.position[1:]
	}
	if reached := r.position[0]; reached.lsn <= replayed {
		until := reached.at.Add(r.maxLag)
		r.until.Store(&until)
	}
	return r.stale(fmt.Errorf("the replica is more than %s behind", r.maxLag))
}

// stale returns reason unless the replica is fresh.
func (r *replica) stale(reason error) error {
	if r.isFresh() {
		return nil
	}
	return reason
}

// readPrimary adds the current position of the primary. It discards positions that are too old
// to make the replica fresh.
func (r *replica) readPrimary(ctx context.Context, primary *listPool) error {
	p := walPosition{at: r.now()}
	err := primary.QueryRow(ctx, `SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::int8, system_identifier FROM pg_control_system()`).
		Scan(&p.lsn, &p.cluster)
	if err != nil {
		return err
	}
	if n := len(r.position); n > 0 && r.position[n-1].lsn > p.lsn {
		r.position = nil // another primary
	}
	r.position = append(r.position, p)
	for len(r.position) > 1 && r.position[1].at.Add(r.maxLag).Before(p.at) {
		r.position = r.position[1:]
	}
	return nil
}

// readReplayed returns the position up to which the replica has replayed the log. A server that
// is not a replica may have been promoted, and then has changes of its own.
func (r *replica) readReplayed(ctx context.Context) (lsn int64, err error) {
	var isReplica bool
	var cluster int64
	err = r.pool.QueryRow(ctx, `SELECT pg_is_in_recovery(), coalesce(pg_wal_lsn_diff(pg_last_wal_replay_lsn(), '0/0'), 0)::int8,
		system_identifier FROM pg_control_system()`).Scan(&isReplica, &lsn, &cluster)
	if err == nil && (!isReplica || cluster != r.position[0].cluster) {
		err = errNoReplica
	}
	if err != nil {
		return 0, fmt.Errorf("read the position of the replica: %w", err)
	}
	return lsn, nil
}
