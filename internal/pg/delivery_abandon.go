package pg

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/eventhook/eventhook"
)

// markDeadSQL ends the deliveries in due as dead; its parameters are @now and @reason.
const markDeadSQL = `
UPDATE eventhook.delivery d
SET status = 'dead', due_at = NULL, completed_at = @now, last_error = @reason
FROM due
WHERE d.tenant_id = due.tenant_id AND d.id = due.id
RETURNING d.tenant_id, d.event_id, d.route_id IS NOT NULL`

// abandonDeliveriesSQL checks first whether the destination exists, and reads no delivery if
// it does. A target of a route does not exist when the route is deleted, when the route has no
// http target at the index, or when the tenant is closed. Index delivery_due, then primary
// key.
const abandonDeliveriesSQL = `
WITH due AS MATERIALIZED (
    SELECT d.tenant_id, d.id FROM eventhook.delivery d
    WHERE d.destination_id = @destination AND d.due_at <= @now
      AND NOT EXISTS (SELECT FROM eventhook.subscription s WHERE s.id = @destination)
      AND NOT EXISTS (SELECT FROM eventhook.route r JOIN eventhook.tenant t ON t.id = r.tenant_id
          WHERE r.id = @route AND r.targets->(@target_index::int)->>'type' = 'http' AND t.status <> 'closed')
    ORDER BY d.due_at LIMIT @limit FOR UPDATE SKIP LOCKED
)` + markDeadSQL

// AbandonDeliveries ends up to limit due deliveries as dead if their destination does not
// exist any more, and returns their number. If the destination exists, it changes nothing and
// returns 0. It concludes the events of a route's deliveries. It sends no system event.
// Deliveries that are leased or wait for a retry are not due, so a later call ends them.
func (db *DB) AbandonDeliveries(ctx context.Context, to eventhook.Destination, reason string, limit int) (int, error) {
	n, err := db.markDead(ctx, abandonDeliveriesSQL, pgx.StrictNamedArgs{"now": db.now(), "reason": eventhook.SanitizeText(reason),
		"destination": [16]byte(to.ID()), "route": uuidArg(to.RouteID), "target_index": to.TargetIndex, "limit": limit})
	return n, translate("abandon deliveries", err)
}

// expireDeliveriesSQL reads only the partitions before @before. Index delivery_due, then primary
// key.
const expireDeliveriesSQL = `
WITH due AS MATERIALIZED (
    SELECT d.tenant_id, d.id FROM eventhook.delivery d
    WHERE d.due_at IS NOT NULL AND d.due_at <= @now AND d.id < @before AND (d.restarted_at <= @oldest) IS NOT FALSE
    ORDER BY d.destination_id, d.due_at LIMIT @limit FOR UPDATE SKIP LOCKED
)` + markDeadSQL

const maxExpired = 10_000 // deliveries of one ExpireDeliveries call

// ExpireDeliveries ends open deliveries as dead that have waited longer than olderThan; if
// olderThan is 0, it ends none. These are deliveries of paused and disabled subscriptions, of
// agents and of disabled routes: the dispatcher does not check their age, and their partitions
// could not be dropped while they are open. The age counts in whole days, so a delivery can
// become a day older than olderThan. The age of a restarted delivery counts from its restart.
// ExpireDeliveries concludes the events of a route's deliveries. It returns the number of ended
// deliveries; if this is 10,000, there may be more.
func (db *DB) ExpireDeliveries(ctx context.Context, olderThan time.Duration) (int, error) {
	if olderThan <= 0 {
		return 0, nil
	}
	now := db.now()
	bound := eventhook.FirstID[eventhook.Delivery](now.Add(-olderThan).UTC().Truncate(day))
	n, err := db.markDead(ctx, expireDeliveriesSQL, pgx.StrictNamedArgs{"now": now, "reason": "older than " + formatHours(olderThan),
		"before": [16]byte(bound), "oldest": now.Add(-olderThan), "limit": maxExpired})
	return n, translate("expire deliveries", err)
}

// markDead runs a statement that ends with markDeadSQL, and concludes the events of a route's
// deliveries in the same transaction.
func (db *DB) markDead(ctx context.Context, sql string, args pgx.StrictNamedArgs) (n int, err error) {
	var ended []concluded
	err = pgx.BeginFunc(ctx, db.work, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, sql, args)
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

// concludeEvents locks events and concludes them; see concludeEventsSQL. An earlier statement
// of the transaction has ended their deliveries.
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

// formatHours formats a duration in hours if it is a whole number of hours.
func formatHours(d time.Duration) string {
	if d%time.Hour == 0 {
		return fmt.Sprintf("%d h", d/time.Hour)
	}
	return d.String()
}
