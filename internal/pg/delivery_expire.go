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
// target at the index whose effects are deliveries, or when the tenant is closed. Index
// delivery_due, then primary key.
var abandonDeliveriesSQL = `
WITH due AS MATERIALIZED (
    SELECT d.tenant_id, d.id FROM eventhook.delivery d
    WHERE d.destination_id = @destination AND (d.due_at <= @now OR d.due_at = 'infinity')
      AND NOT EXISTS (SELECT FROM eventhook.subscription s WHERE s.id = @destination)
      AND NOT EXISTS (SELECT FROM eventhook.route r JOIN eventhook.tenant t ON t.id = r.tenant_id
          WHERE r.id = @route AND ` + isDestination(`(r.targets->(@target_index::int))`) + ` AND t.status <> 'closed')
    ORDER BY d.due_at DESC LIMIT @limit FOR UPDATE SKIP LOCKED
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

// expireDeliveriesSQL reads only the partitions before @before. It keeps deliveries whose age an
// outage explains: the dispatcher and expireHeldSQL end these. Indexes
// subscription_health_probe, subscription_health_ended and delivery_due, then primary keys.
const expireDeliveriesSQL = `
WITH due AS MATERIALIZED (
    SELECT d.tenant_id, d.id FROM eventhook.delivery d
    WHERE d.due_at IS NOT NULL AND (d.due_at <= @now OR d.due_at = 'infinity') AND d.id < @before AND (d.restarted_at <= @oldest) IS NOT FALSE
      AND d.destination_id <> ALL (ARRAY(SELECT subscription_id FROM eventhook.subscription_health WHERE next_probe_at IS NOT NULL
          UNION ALL SELECT subscription_id FROM eventhook.subscription_health WHERE outage_ended_at > @oldest))
    ORDER BY d.destination_id, d.due_at LIMIT @limit FOR UPDATE SKIP LOCKED
)` + markDeadSQL

const (
	maxExpired     = 10_000 // deliveries of one ExpireDeliveries call
	maxExpiredHeld = 1000   // of each held subscription
)

// ExpireDeliveries ends open deliveries as dead that have waited longer than olderThan; if
// olderThan is 0, it ends none. In practice it ends deliveries of paused or disabled
// subscriptions, of agents and of disabled routes, whose age the dispatcher does not check. A
// partition with open deliveries cannot be dropped. The age counts in whole days, so a delivery can
// become a day older than olderThan. The age of a restarted delivery counts from its restart.
// ExpireDeliveries concludes the events of a route's deliveries. It returns the number of ended
// deliveries; if this is 10,000, there may be more.
func (db *DB) ExpireDeliveries(ctx context.Context, olderThan time.Duration) (int, error) {
	if olderThan <= 0 {
		return 0, nil
	}
	now := db.now()
	bound := eventhook.FirstID[eventhook.Delivery](now.Add(-olderThan).UTC().Truncate(day))
	held, err := db.markDead(ctx, expireHeldSQL, pgx.StrictNamedArgs{"now": now, "reason": "held longer than recovery.max_age_hours",
		"default_hours": eventhook.DefaultRecoveryHours, "limit": maxExpiredHeld})
	if err != nil {
		return 0, translate("expire held deliveries", err)
	}
	n, err := db.markDead(ctx, expireDeliveriesSQL, pgx.StrictNamedArgs{"now": now, "reason": "older than " + formatHours(olderThan),
		"before": [16]byte(bound), "oldest": now.Add(-olderThan), "limit": maxExpired})
	db.observer.DeliveriesExpired(held + n)
	return held + n, translate("expire deliveries", err)
}

// markDead runs a statement that ends with markDeadSQL, and concludes the events of a route's
// deliveries in the same transaction.
func (db *DB) markDead(ctx context.Context, sql string, args pgx.StrictNamedArgs) (n int, err error) {
	var ended []concluded
	err = pgx.BeginFunc(ctx, db.work, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, lockAllOrderSQL); err != nil {
			return err
		}
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
