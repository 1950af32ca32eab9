package pg

import (
	"context"
	"time"
)

// deliveryAgeSQL hops from subscription to subscription in delivery_due, a
// thousand of them at most, and looks at the first row of each that the gateway
// is to send: what is paused, disabled or for agents waits for others.
const deliveryAgeSQL = `
WITH RECURSIVE first AS (
    (SELECT subscription_id, due_at, 1 AS n FROM eventhook.delivery WHERE due_at IS NOT NULL
     ORDER BY subscription_id, due_at LIMIT 1)
    UNION ALL
    SELECT d.subscription_id, d.due_at, f.n + 1 FROM first f CROSS JOIN LATERAL (
        SELECT subscription_id, due_at FROM eventhook.delivery
        WHERE due_at IS NOT NULL AND subscription_id > f.subscription_id
        ORDER BY subscription_id, due_at LIMIT 1) d
    WHERE f.n < 1000
)
SELECT min(f.due_at) FROM first f JOIN eventhook.subscription s ON s.id = f.subscription_id
WHERE s.status = 'active' AND coalesce(jsonb_array_length(s.settings->'target_labels'), 0) = 0`

// DeliveryQueueAge is the age of the oldest due delivery that the gateway is to
// send, 0 if there is none.
func (db *DB) DeliveryQueueAge(ctx context.Context) (time.Duration, error) {
	return db.queueAge(ctx, deliveryAgeSQL)
}
