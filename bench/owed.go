package main

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// deliveriesOf is how many deliveries to a subscriber are made of one event
// where there must be many: only how many there are matters.
const deliveriesOf = 1000

// owedSQL makes deliveries to a subscriber that are due, or that have succeeded
// long ago, in the order of their ids, and the events they are of.
const owedSQL = `
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

// owing is how many deliveries to make to a subscriber, of how many events.
type owing struct {
	subscription string
	events, each int
	due          bool
}

// owe makes them. The database comes to rest before it returns.
func owe(ctx context.Context, conn *pgx.Conn, tenant [16]byte, list ...owing) error {
	for _, o := range list {
		_, err := conn.Exec(ctx, owedSQL, pgx.NamedArgs{"until": time.Now(), "events": o.events, "each": o.each, "tenant": tenant,
			"subscription": o.subscription, "due": o.due, "body": body, "type": made})
		if err != nil {
			return fmt.Errorf("make deliveries: %w", err)
		}
	}
	return (&filler{conn: conn}).settle(ctx)
}

// owe makes so many due deliveries to a subscriber of the bench's tenant.
func (p *publisher) owe(ctx context.Context, subscription string, number int) error {
	var tenant [16]byte
	if err := p.stats.conn.QueryRow(ctx, `SELECT id FROM eventhook.tenant WHERE slug = $1`, benchTenant).Scan(&tenant); err != nil {
		return err
	}
	return owe(ctx, p.stats.conn, tenant, owing{subscription, number / deliveriesOf, deliveriesOf, true})
}
