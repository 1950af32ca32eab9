package pg

import (
	"context"
	"slices"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/outbound"
)

// A transaction holds the locks of its keys until its commit is on disk, and most batches have
// a key in common, so they would wait for each other's writes to the disk. Therefore the
// frequent transactions commit without this wait, and wait for the disk after the commit has
// released the locks. Each later transaction that acts on what it reads, such as a claim, has
// a later commit in the log, so it is never on disk without the commits that it has read.

// deferFlushSQL lets the transaction commit without waiting for the disk. After the commit,
// flushOrder must succeed before the result is reported.
var deferFlushSQL = newStatement("defer_flush", `SELECT set_config('synchronous_commit', 'off', true)`)

// flushSQL returns when all commits that ended before it are on disk, and on the standby servers
// that the settings of the database require: it writes a message to the log, which no reader
// uses, and commits.
var flushSQL = newStatement("flush", `SELECT pg_logical_emit_message(true, 'eventhook', '')`)

func flushOrder(ctx context.Context, conn *pgconn.PgConn) error {
	return conn.ExecPrepared(ctx, flushSQL.name, nil, nil, binaryResults).Read().Err
}

// flushSettled runs flushOrder if skipOrderSQL was a statement of the transaction that settled
// a batch.
func (db *DB) flushSettled(ctx context.Context, batch []*outbound.DeliverySettlement) error {
	if !slices.ContainsFunc(batch, endsOrdered) {
		return nil
	}
	return db.flush(ctx)
}

// flush is flushOrder on a connection of the work pool.
func (db *DB) flush(ctx context.Context) error {
	conn, err := db.work.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	return flushOrder(ctx, conn.Conn().PgConn())
}

// endsOrdered reports whether a settlement ends an ordered delivery.
func endsOrdered(s *outbound.DeliverySettlement) bool {
	return isOrdered(s.Delivery) && s.Status != eventhook.DeliveryFailed
}
