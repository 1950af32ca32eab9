package pg

import (
	"context"
	"sync"
	"time"

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
