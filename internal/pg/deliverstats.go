package pg

import (
	"context"
	"time"

	"github.com/eventhook/eventhook"
)

// subscriptionStatsSQL reads a range of the primary key of the counts, and of
// delivery_due no more than the first $5 that are owed. $3 and $4 are a day and
// an hour ago.
const subscriptionStatsSQL = `
SELECT coalesce(u.delivered_hour, 0)::int8, coalesce(u.delivered, 0)::int8, coalesce(u.failed_hour, 0)::int8, coalesce(u.failed, 0)::int8,
    coalesce(u.dead_hour, 0)::int8, coalesce(u.dead, 0)::int8, coalesce(u.duration_ms, 0)::int8,
    w.waiting, w.oldest, coalesce((SELECT h.dead_in_row FROM eventhook.subscription_health h WHERE h.subscription_id = s.id), 0)
FROM eventhook.subscription s
CROSS JOIN LATERAL (
    SELECT sum(delivered) AS delivered, sum(delivered) FILTER (WHERE at >= $4) AS delivered_hour,
        sum(failed) AS failed, sum(failed) FILTER (WHERE at >= $4) AS failed_hour,
        sum(dead) AS dead, sum(dead) FILTER (WHERE at >= $4) AS dead_hour, sum(duration_ms) AS duration_ms
    FROM eventhook.subscription_usage WHERE subscription_id = s.id AND at >= $3) u
CROSS JOIN LATERAL (
    SELECT count(*) AS waiting, min(due_at) AS oldest FROM (
        SELECT due_at FROM eventhook.delivery WHERE destination_id = s.id AND due_at IS NOT NULL ORDER BY due_at LIMIT $5) d) w
WHERE s.id = $2 AND (s.tenant_id = $1) IS TRUE`

// SubscriptionStats tells what one of the tenant's subscriptions has done lately
// and what waits for it, at a cost that does not depend on how much that is; or
// KindNotFound. The spans begin on full five minutes, and the newest seconds may
// be missing.
func (db *DB) SubscriptionStats(ctx context.Context, tenant eventhook.TenantID, id eventhook.SubscriptionID) (eventhook.SubscriptionStats, error) {
	now := db.now()
	since := func(ago time.Duration) time.Time { return now.Add(-ago).Truncate(eventhook.SourceCountSpan) }
	var s eventhook.SubscriptionStats
	var milliseconds int64
	err := db.lists.QueryRow(ctx, subscriptionStatsSQL, [16]byte(tenant), [16]byte(id), since(day), since(time.Hour), eventhook.MostWaiting).Scan(
		&s.DeliveredLastHour, &s.DeliveredLast24h, &s.FailedLastHour, &s.FailedLast24h, &s.DeadLastHour, &s.DeadLast24h, &milliseconds,
		&s.Waiting, &s.OldestAt, &s.DeadInRow)
	if attempts := s.DeliveredLast24h + s.FailedLast24h; attempts > 0 {
		s.MeanDuration = time.Duration(milliseconds) * time.Millisecond / time.Duration(attempts)
	}
	return s, translate("read the subscription's statistics", notFound(err, "subscription"))
}
