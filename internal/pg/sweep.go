package pg

import (
	"context"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/eventhook/eventhook"
)

// sweepPages is how much of a table one call looks at: 8 MB.
const sweepPages = 1000

// position is where the next call goes on in a table, in pages. Instances
// sweep each for itself; what one has removed the other does not find.
type sweepPosition struct {
	mu   sync.Mutex
	page uint32
}

// sweepKeysSQL removes keys past their time from a range of pages. There is
// no index on expires_at, which every accepted event would have to pay for.
// It skips what somebody holds, so that it waits for nobody and cannot be part
// of a deadlock. TID range scan.
const sweepKeysSQL = `
WITH over AS MATERIALIZED (
    SELECT ctid FROM eventhook.idempotency_key
    WHERE ctid >= $1 AND ctid < $2 AND expires_at <= $3
    FOR UPDATE SKIP LOCKED
)
DELETE FROM eventhook.idempotency_key WHERE ctid = ANY(ARRAY(SELECT ctid FROM over))`

// sweepExecutionsSQL does the same with executions that ended before a moment,
// and with what they awaited.
const sweepExecutionsSQL = `
WITH over AS MATERIALIZED (
    SELECT ctid FROM eventhook.execution
    WHERE ctid >= $1 AND ctid < $2 AND completed_at <= $3 AND due_at IS NULL
    FOR UPDATE SKIP LOCKED
)
DELETE FROM eventhook.execution WHERE ctid = ANY(ARRAY(SELECT ctid FROM over))`

// SweepIdempotencyKeys removes idempotency keys past their time from the next part of their
// table and returns how many it removed. A call costs the same whatever the
// table's size; after the last part the next call begins anew. A key that is
// still there past its time is claimed anew all the same, so being late costs
// room only.
func (db *DB) SweepIdempotencyKeys(ctx context.Context) (int, error) {
	return db.sweep(ctx, "sweep idempotency keys", "idempotency_key", sweepKeysSQL, &db.sweptKeys, db.now())
}

// SweepExecutions removes executions that ended longer than keep ago from the
// next part of their table, as SweepIdempotencyKeys does with keys. A keep of 0 removes none,
// and no keep removes what a target's key may still stand for.
func (db *DB) SweepExecutions(ctx context.Context, keep time.Duration) (int, error) {
	if keep <= 0 {
		return 0, nil
	}
	return db.sweep(ctx, "sweep executions", "execution", sweepExecutionsSQL, &db.sweptExecutions, db.now().Add(-max(keep, eventhook.TargetKeyTTL)))
}

// sweepPromisesSQL does the same with promises that were settled before a
// moment, those included whose outcome came and that nobody ever made. One that
// an execution awaited goes after the execution.
const sweepPromisesSQL = `
WITH over AS MATERIALIZED (
    SELECT ctid FROM eventhook.promise p
    WHERE ctid >= $1 AND ctid < $2 AND settled_at <= $3 AND due_at IS NULL
      AND NOT EXISTS (SELECT FROM eventhook.execution_await w WHERE w.promise_id = p.id)
    FOR UPDATE SKIP LOCKED
)
DELETE FROM eventhook.promise WHERE ctid = ANY(ARRAY(SELECT ctid FROM over))`

// SweepPromises removes promises that were settled longer than keep ago from
// the next part of their table, as SweepIdempotencyKeys does with keys. A keep of 0 removes
// none. A pending promise without a deadline is kept.
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
