package pg

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/eventhook/eventhook"
)

// markDeadSQL makes the deliveries dead that due has found; $1 is now, $2 the reason.
const markDeadSQL = `
UPDATE eventhook.delivery d
SET status = 'dead', due_at = NULL, completed_at = $1, last_error = $2
FROM due
WHERE d.tenant_id = due.tenant_id AND d.id = due.id
RETURNING d.tenant_id, d.event_id, d.route_id IS NOT NULL`

// abandonDeliveriesSQL looks for the destination first, and for nothing else if it
// is there. A target of a route is gone with the route, when the route has no http
// target at the index, or when the tenant is closed. Index delivery_due, then primary
// key.
const abandonDeliveriesSQL = `
WITH due AS MATERIALIZED (
    SELECT d.tenant_id, d.id FROM eventhook.delivery d
    WHERE d.destination_id = $3 AND d.due_at <= $1
      AND NOT EXISTS (SELECT FROM eventhook.subscription s WHERE s.id = $3)
      AND NOT EXISTS (SELECT FROM eventhook.route r JOIN eventhook.tenant t ON t.id = r.tenant_id
          WHERE r.id = $4 AND r.targets->($5::int)->>'type' = 'http' AND t.status <> 'closed')
    ORDER BY d.due_at LIMIT $6 FOR UPDATE SKIP LOCKED
)` + markDeadSQL

// AbandonDeliveries makes due deliveries dead whose destination is gone, up to limit
// of them, and returns how many; of a destination that is there, none. It concludes
// the events of a route's deliveries. Nobody is told of the deliveries. Those that
// are leased, or failed and are to be tried again later, are due later.
func (db *DB) AbandonDeliveries(ctx context.Context, to eventhook.Destination, reason string, limit int) (int, error) {
	n, err := db.markDead(ctx, abandonDeliveriesSQL, db.now(), eventhook.SanitizeText(reason), [16]byte(to.ID()), uuidArg(to.RouteID), to.TargetIndex, limit)
	return n, translate("abandon deliveries", err)
}

// expireDeliveriesSQL looks into the partitions before $3 alone. Index
// delivery_due, then primary key.
const expireDeliveriesSQL = `
WITH due AS MATERIALIZED (
    SELECT d.tenant_id, d.id FROM eventhook.delivery d
    WHERE d.due_at IS NOT NULL AND d.due_at <= $1 AND d.id < $3 AND (d.restarted_at <= $4) IS NOT FALSE
    ORDER BY d.destination_id, d.due_at LIMIT $5 FOR UPDATE SKIP LOCKED
)` + markDeadSQL

const maxExpired = 10_000 // at a time

// ExpireDeliveries makes deliveries dead that are owed, were not sent, and are
// older than a time: those of paused and disabled subscriptions, of agents and of
// disabled routes, for which nobody else looks at their age, so that their partitions
// can go. It looks at days that are over for as long, so that a delivery may get a
// day older. One that was begun anew is as old as that. It concludes the events of a
// route's deliveries. It returns how many there were; while they are 10 000, there
// may be more.
func (db *DB) ExpireDeliveries(ctx context.Context, olderThan time.Duration) (int, error) {
	if olderThan <= 0 {
		return 0, nil
	}
	now := db.now()
	bound := eventhook.FirstID[eventhook.Delivery](now.Add(-olderThan).UTC().Truncate(day))
	n, err := db.markDead(ctx, expireDeliveriesSQL, now, "older than "+formatHours(olderThan), [16]byte(bound), now.Add(-olderThan), maxExpired)
	return n, translate("expire deliveries", err)
}

// markDead runs a statement that ends with markDeadSQL, and concludes the events of
// the deliveries of routes in the same transaction.
func (db *DB) markDead(ctx context.Context, sql string, args ...any) (n int, err error) {
	var ended []concluded
	err = pgx.BeginFunc(ctx, db.work, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, sql, args...)
		if err != nil {
			return err
		}
		var of eventKey
		var isOfRoute bool
		var events []eventKey
		n = 0
		_, err = pgx.ForEachRow(rows, []any{(*[16]byte)(&of.tenant), (*[16]byte)(&of.id), &isOfRoute}, func() error {
			if n++; isOfRoute {
				events = append(events, of)
			}
			return nil
		})
		if err != nil || len(events) == 0 {
			return err
		}
		ended, err = concludeEvents(ctx, tx, events, db.now())
		return err
	})
	if err != nil {
		return 0, err
	}
	db.notifyConcluded(ended)
	return n, nil
}

// concludeEvents locks events and concludes them, after a statement of the
// transaction has ended deliveries of theirs.
func concludeEvents(ctx context.Context, tx pgx.Tx, events []eventKey, now time.Time) ([]concluded, error) {
	b, c := &pgconn.Batch{}, newColumns(concludeEventsSQL)
	encodeEventKeys(c, events)
	queueLockEvents(b, c)
	queueConcludeEvents(b, c, now)
	results, err := tx.Conn().PgConn().ExecBatch(ctx, b).ReadAll()
	if err != nil {
		return nil, fmt.Errorf("conclude events: %w", err)
	}
	return readConcluded(results[len(results)-1].Rows), nil
}

// formatHours is a span in hours, if it is whole ones.
func formatHours(d time.Duration) string {
	if d%time.Hour == 0 {
		return fmt.Sprintf("%d h", d/time.Hour)
	}
	return d.String()
}
