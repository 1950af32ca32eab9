package seed

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// BacklogPerEvent is a number of deliveries per event for backlogs in which the number of
// events does not matter.
const BacklogPerEvent = 1000

// Deliveries describes deliveries to one subscription.
type Deliveries struct {
	Subscription     [16]byte
	Events, PerEvent int
	// IsDue selects deliveries that are due. Otherwise they have succeeded.
	IsDue bool
	// At is when the newest event was received. It is also when the deliveries became
	// due or succeeded. Zero is now.
	At time.Time
}

// DueBacklog returns number due deliveries to a subscription, rounded down to a
// multiple of BacklogPerEvent.
func DueBacklog(subscription [16]byte, number int) Deliveries {
	return Deliveries{Subscription: subscription, Events: number / BacklogPerEvent, PerEvent: BacklogPerEvent, IsDue: true}
}

// deliveriesSQL inserts events, a millisecond apart, and their deliveries in the
// order of their ids.
const deliveriesSQL = `
WITH n AS (
    SELECT i, gen_random_uuid() AS random, @until::timestamptz - i * interval '1 ms' AS at FROM generate_series(1, @events::int) i
), e AS MATERIALIZED (
    SELECT i, (lpad(to_hex((extract(epoch FROM at) * 1000)::int8), 12, '0') || '7' || substr(md5(random::text), 1, 3) || '8' || substr(md5(random::text), 4, 15))::uuid AS id FROM n
), events AS (
    INSERT INTO eventhook.event (id, tenant_id, processed_at, body_size, status, origin, event_type, content_type)
    SELECT id, @tenant, @until, length(@body::bytea), 'delivered', 'api', @type::text, 'application/json' FROM e
), payloads AS (
    INSERT INTO eventhook.event_payload (event_id, headers, body, envelope) SELECT id, '', @body, '{}' FROM e
), d AS (
    SELECT e.id AS event, md5(e.id::text || each) AS random FROM e, generate_series(1, @each::int) each
)
INSERT INTO eventhook.delivery (id, tenant_id, destination_id, event_id, due_at, completed_at, lease_token, attempts, status_code, status, event_type, history)
SELECT (substr(event::text, 1, 18) || '-8' || substr(random, 1, 3) || '-' || substr(random, 4, 12))::uuid AS id, @tenant, @subscription::uuid, event,
    CASE WHEN @due THEN @until END, CASE WHEN NOT @due THEN @until END, CASE WHEN @due THEN 0 ELSE 1 END, CASE WHEN @due THEN 0 ELSE 1 END,
    CASE WHEN NOT @due THEN 200 END, CASE WHEN @due THEN 'pending' ELSE 'success' END, @type, NULL
FROM d ORDER BY id`

// InsertDeliveries inserts events of a type with a body, and their deliveries. Then
// it vacuums.
func InsertDeliveries(ctx context.Context, conn *pgx.Conn, tenant [16]byte, eventType string, body []byte, list ...Deliveries) error {
	for _, d := range list {
		at := d.At
		if at.IsZero() {
			at = time.Now()
		}
		_, err := conn.Exec(ctx, deliveriesSQL, pgx.NamedArgs{"until": at, "events": d.Events, "each": d.PerEvent, "tenant": tenant,
			"subscription": d.Subscription, "due": d.IsDue, "body": body, "type": eventType})
		if err != nil {
			return fmt.Errorf("seed deliveries: %w", err)
		}
	}
	return Vacuum(ctx, conn)
}
