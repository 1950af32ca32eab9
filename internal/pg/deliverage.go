package pg

import (
	"context"
	"time"
)

// deliveryAgeSQL hops from destination to destination in delivery_due, a thousand
// at most, and reads the first row of each. It leaves out deliveries that the gateway
// does not send now: those to subscriptions that are paused, disabled or for agents,
// and those of disabled routes.
const deliveryAgeSQL = `
WITH RECURSIVE first AS (
    (SELECT destination_id, route_id, due_at, 1 AS n FROM eventhook.delivery WHERE due_at IS NOT NULL
     ORDER BY destination_id, due_at LIMIT 1)
    UNION ALL
    SELECT d.destination_id, d.route_id, d.due_at, f.n + 1 FROM first f CROSS JOIN LATERAL (
        SELECT destination_id, route_id, due_at FROM eventhook.delivery
        WHERE due_at IS NOT NULL AND destination_id > f.destination_id
        ORDER BY destination_id, due_at LIMIT 1) d
    WHERE f.n < 1000
)
SELECT min(f.due_at) FROM first f
LEFT JOIN eventhook.subscription s ON s.id = f.destination_id
LEFT JOIN eventhook.route r ON r.id = f.route_id
WHERE s.status = 'active' AND coalesce(jsonb_array_length(s.settings->'target_labels'), 0) = 0 OR r.is_enabled`

// DeliveryQueueAge is the age of the oldest due delivery that the gateway is to
// send, 0 if there is none.
func (db *DB) DeliveryQueueAge(ctx context.Context) (time.Duration, error) {
	return db.queueAge(ctx, deliveryAgeSQL)
}
