package pg

import (
	"context"
	"hash/fnv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/eventhook/eventhook/internal/backoff"
)

// lockSourceCopies is the first key of the advisory locks that instances hold for long: one for each log of webhooks,
// whose second key is a hash. Each lock that is held has a connection of its own.
const lockSourceCopies = 1702258544 // "evmp"

// lockEvery is the time between two attempts to get a lock, and between two checks that it is held.
const lockEvery = 2 * time.Second

// WithSourceCopies calls do while this instance, and no other, may write copies of sources into a log. It calls do
// again when it has got the lock again. The context of do ends when the lock is lost or ctx ends.
// Errors of do are logged, and do is called again.
func (db *DB) WithSourceCopies(ctx context.Context, log string, do func(context.Context) error) error {
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(log))
	key := int32(hash.Sum32())
	for ctx.Err() == nil {
		if err := db.withLock(ctx, key, do); err != nil && ctx.Err() == nil {
			db.log.Debug("the lock of the copies of sources is free again", "error", err)
		}
		backoff.Sleep(ctx, lockEvery)
	}
	return nil
}

// withLock calls do with a lock of the copies of sources, or returns nil at once if another instance has it. The error
// is that of do, or says why the lock was lost before.
func (db *DB) withLock(ctx context.Context, key int32, do func(context.Context) error) error {
	conn, err := pgx.ConnectConfig(ctx, db.work.Config().ConnConfig)
	if err != nil {
		return err
	}
	defer func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = conn.Close(closing) // releases the lock
	}()
	var isHeld bool
	if err := conn.QueryRow(ctx, `SELECT pg_try_advisory_lock($1, $2)`, int32(lockSourceCopies), key).Scan(&isHeld); err != nil || !isHeld {
		return err
	}
	held, lose := context.WithCancelCause(ctx)
	defer lose(nil)
	checked := make(chan struct{})
	go func() {
		defer close(checked)
		lose(checkLock(held, conn))
	}()
	lose(do(held))
	<-checked
	return context.Cause(held)
}

// checkLock returns when the connection of a lock has broken, or ctx has ended.
func checkLock(ctx context.Context, conn *pgx.Conn) error {
	for {
		if !backoff.Sleep(ctx, lockEvery) {
			return ctx.Err()
		}
		checking, cancel := context.WithTimeout(ctx, lockEvery)
		err := conn.Ping(checking)
		cancel()
		if err != nil {
			return err
		}
	}
}
