package main

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// What every fill holds, however many events it has: lists by these are the
// same length in all, and their time may not grow with the rest.
const (
	filledFew  = 5           // events of source-1, of rareType, and of each state but delivered and dead
	filledDead = 3           // events that are dead
	rareType   = "rare.type" // all others are of type.0 to type.19
	dueLater   = time.Hour   // when what is owed is due: not while anybody measures
)

// fillSourcesSQL makes a tenant ($1) and its sources source-1 to source-$2.
// They take no webhooks: nothing has sealed their verifier.
const fillSourcesSQL = `
WITH t AS (
    INSERT INTO eventhook.tenant (id, slug, name) VALUES (md5($1::text)::uuid, $1, $1) RETURNING id
)
INSERT INTO eventhook.source (id, tenant_id, slug, name, verifier, secrets_count, settings, is_enabled)
SELECT md5($1 || '/' || n)::uuid, t.id, 'source-' || n, 'source ' || n, '', 0, '{}', false
FROM t, generate_series(1, $2::int) n`

// fillEventsSQL makes $3 events, one for each millisecond before $4, in this
// order. Those that are few are spread evenly, the dead among the oldest. A
// duplicate is of the event before it. Event n has the key key-n.
const fillEventsSQL = `
WITH places AS (
    SELECT i, CASE WHEN i <= $3::int / $5::int * $5 THEN i % ($3 / $5) ELSE 0 END AS place, i / ($3 / $5) AS round
    FROM generate_series(1, $3) i
), n AS (
    SELECT i, place, md5(i::text) AS random, i - CASE place WHEN 9 THEN 1 ELSE 0 END AS original, CASE
        WHEN place = 3 AND round < $6::int THEN 'dead'
        WHEN place = 4 THEN 'failed'
        WHEN place = 5 THEN 'unrouted'
        WHEN place = 6 THEN 'pending'
        WHEN place = 7 THEN 'processing'
        WHEN place = 9 THEN 'duplicate'
        ELSE 'delivered' END AS status
    FROM places
), e AS (
    SELECT i, place, status, original,
        (lpad(to_hex((extract(epoch FROM $4::timestamptz) * 1000)::int8 - $3 + i), 12, '0') || '7' || substr(random, 1, 3) || '8' || substr(random, 4, 15))::uuid AS id,
        (lpad(to_hex((extract(epoch FROM $4::timestamptz) * 1000)::int8 - $3 + original), 12, '0') || '7' || substr(md5(original::text), 1, 3)
            || '8' || substr(md5(original::text), 4, 15))::uuid AS first,
        md5($1::text || '/' || CASE WHEN place = 1 OR $2::int = 1 THEN 1 ELSE 2 + original % greatest($2 - 1, 1) END)::uuid AS source_id
    FROM n
), keys AS (
    INSERT INTO eventhook.idempotency_key (tenant_id, scope, key, made, expires_at)
    SELECT md5($1)::uuid, source_id::text, 'key-' || i, id, 'infinity' FROM e WHERE status <> 'duplicate'
)
INSERT INTO eventhook.event (id, tenant_id, source_id, duplicate_of, due_at, processed_at, lease_token, retry_count, body_size,
    status, origin, event_type, content_type, idempotency_key, source_ip, last_error)
SELECT id, md5($1)::uuid, source_id, CASE WHEN status = 'duplicate' THEN first END,
    CASE WHEN status IN ('pending', 'processing', 'failed') THEN $7::timestamptz END, CASE WHEN status = 'delivered' THEN $4::timestamptz END,
    1, CASE WHEN status IN ('failed', 'dead') THEN 1 ELSE 0 END, 1024, status, 'source',
    CASE WHEN place = 2 THEN $8::text ELSE 'type.' || i % 20 END, 'application/json', 'key-' || original, '192.0.2.1',
    CASE WHEN status IN ('failed', 'dead') THEN 'the target did not answer' END
FROM e ORDER BY i`

// fill makes a tenant with a number of sources (slugs source-1 and on) and a
// number of events, at least 100, received one a millisecond until now; a
// million take well under a minute. They have no payloads and no actions. The
// tables are vacuumed and analyzed then, as they would be in the long run.
func fill(ctx context.Context, conn *pgx.Conn, tenant string, events, sources int) error {
	const fewest = 100
	if events < fewest || sources < 1 {
		return fmt.Errorf("fill: %d events over %d sources, want at least %d over 1", events, sources, fewest)
	}
	if _, err := conn.Exec(ctx, fillSourcesSQL, tenant, sources); err != nil {
		return fmt.Errorf("fill sources: %w", err)
	}
	now := time.Now()
	if _, err := conn.Exec(ctx, fillEventsSQL, tenant, sources, events, now, filledFew, filledDead, now.Add(dueLater), rareType); err != nil {
		return fmt.Errorf("fill events: %w", err)
	}
	if _, err := conn.Exec(ctx, `VACUUM (ANALYZE) eventhook.event, eventhook.idempotency_key, eventhook.source`); err != nil {
		return fmt.Errorf("vacuum: %w", err)
	}
	return nil
}
