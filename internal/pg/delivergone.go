package pg

import (
	"context"
	"fmt"
	"time"

	"github.com/eventhook/eventhook"
)

// giveUp is what deliveries become that nobody sends; $1 is now, $2 the reason.
const giveUp = `
UPDATE eventhook.delivery d
SET status = 'dead', due_at = NULL, completed_at = $1, last_error = $2
FROM due
WHERE d.tenant_id = due.tenant_id AND d.id = due.id`

// abandonDeliveriesSQL looks for the subscription first, and for nothing else if
// it is there. Index delivery_due, then primary key.
const abandonDeliveriesSQL = `
WITH due AS MATERIALIZED (
    SELECT d.tenant_id, d.id FROM eventhook.delivery d
    WHERE d.subscription_id = $3 AND d.due_at <= $1 AND NOT EXISTS (SELECT FROM eventhook.subscription s WHERE s.id = $3)
    ORDER BY d.due_at LIMIT $4 FOR UPDATE SKIP LOCKED
)` + giveUp

// AbandonDeliveries makes due deliveries dead whose destination does not exist any more,
// up to limit of them, and returns how many; while the destination exists, none.
// No event announces them. Those that are leased, or failed and are to be tried again
// later, are due later.
func (db *DB) AbandonDeliveries(ctx context.Context, to eventhook.Destination, reason string, limit int) (int, error) {
	tag, err := db.work.Exec(ctx, abandonDeliveriesSQL, db.now(), eventhook.Text(reason), [16]byte(to.ID()), limit)
	return int(tag.RowsAffected()), translate("abandon deliveries", err)
}

// expireDeliveriesSQL looks into the partitions before $3 alone. Index
// delivery_due, then primary key.
const expireDeliveriesSQL = `
WITH due AS MATERIALIZED (
    SELECT d.tenant_id, d.id FROM eventhook.delivery d
    WHERE d.due_at IS NOT NULL AND d.due_at <= $1 AND d.id < $3 AND (d.restarted_at <= $4) IS NOT FALSE
    ORDER BY d.subscription_id, d.due_at LIMIT $5 FOR UPDATE SKIP LOCKED
)` + giveUp

const mostExpired = 10_000 // at a time

// ExpireDeliveries makes deliveries dead that are owed, were not sent, and are
// older than a time: those of paused and disabled subscriptions and of agents,
// for which nobody else looks at their age, so that their partitions can go. It
// looks at days that are over for as long, so that a delivery may get a day
// older. One that was begun anew is as old as that. It returns how many there
// were; while they are 10 000, there may be more.
func (db *DB) ExpireDeliveries(ctx context.Context, olderThan time.Duration) (int, error) {
	if olderThan <= 0 {
		return 0, nil
	}
	now := db.now()
	bound := eventhook.FirstID[eventhook.Delivery](now.Add(-olderThan).UTC().Truncate(day))
	tag, err := db.work.Exec(ctx, expireDeliveriesSQL, now, "older than "+inWords(olderThan), [16]byte(bound), now.Add(-olderThan), mostExpired)
	return int(tag.RowsAffected()), translate("expire deliveries", err)
}

// inWords is a span in hours, if it is whole ones.
func inWords(d time.Duration) string {
	if d%time.Hour == 0 {
		return fmt.Sprintf("%d h", d/time.Hour)
	}
	return d.String()
}
