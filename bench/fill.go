package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// What every fill holds, however much it is: lists by these are the same
// length in all, and their time may not grow with the rest.
const (
	filledFew        = 5                // events of the first source, of rareType, and of each state but delivered and dead; audit entries of rareAction
	filledDead       = 3                // events that are dead
	filledRoutes     = 60               // of the first source; others have one
	filledRejections = 50               // of the first source; others have one
	rareType         = "rare.type"      // all others are of type.0 to type.19
	rareAction       = "source.deleted" // all others are source.updated
	dueLater         = time.Hour        // when what is owed is due: not while anybody measures
)

// filler fills the database of a gateway that has the bench's tenant.
type filler struct {
	conn    *pgx.Conn
	events  int
	sources int
	until   time.Time // of the newest event; they were received one a millisecond
	tenant  [16]byte
}

// newFiller is for a number of events, at least 1000, over at least 2 sources.
func newFiller(ctx context.Context, conn *pgx.Conn, events, sources int) (*filler, error) {
	const fewest, fewestSources = 1000, 2
	if events < fewest || sources < fewestSources {
		return nil, fmt.Errorf("fill: %d events over %d sources, want at least %d over %d", events, sources, fewest, fewestSources)
	}
	f := &filler{conn: conn, events: events, sources: sources, until: time.Now().Truncate(time.Millisecond)}
	err := conn.QueryRow(ctx, `SELECT id FROM eventhook.tenant WHERE slug = $1`, benchTenant).Scan(&f.tenant)
	return f, err
}

// at is when event n was received; they are counted from 1.
func (f *filler) at(n int) time.Time {
	return f.until.Add(time.Duration(n-f.events) * time.Millisecond)
}

// filledSource is the slug of source n, counted from 1; all are of one length.
func filledSource(n int) string { return fmt.Sprintf("source-%06d", n) }

// filling makes one kind of thing.
type filling struct{ what, sql string }

// fill makes things in this order.
func (f *filler) fill(ctx context.Context, list ...filling) error {
	args := pgx.NamedArgs{
		"tenant": f.tenant, "like": benchSource, "events": f.events, "sources": f.sources, "until": f.until, "later": f.until.Add(dueLater),
		"few": filledFew, "dead": filledDead, "routes": filledRoutes, "rejections": filledRejections, "rare_type": rareType, "rare_action": rareAction,
	}
	for _, x := range list {
		if _, err := f.conn.Exec(ctx, x.sql, args); err != nil {
			return fmt.Errorf("fill %s: %w", x.what, err)
		}
	}
	return nil
}

// all makes everything that is listed, and brings the database to rest. Events,
// which take the longest, are made beside the others.
func (f *filler) all(ctx context.Context) error {
	if err := f.fill(ctx, filledSources...); err != nil {
		return err
	}
	beside := *f
	var err error
	if beside.conn, err = pgx.ConnectConfig(ctx, f.conn.Config()); err != nil {
		return err
	}
	defer func() { _ = beside.conn.Close(ctx) }()
	made := make(chan error, 1)
	go func() { made <- beside.fill(ctx, filledBeside...) }()
	err = f.fill(ctx, filledEvents)
	if err = errors.Join(err, <-made); err != nil {
		return err
	}
	return f.settle(ctx)
}

// settle brings the database to rest, so that nothing is tidied up while
// somebody measures.
func (f *filler) settle(ctx context.Context) error {
	for _, sql := range []string{`VACUUM (ANALYZE)`, `CHECKPOINT`} {
		if _, err := f.conn.Exec(ctx, sql); err != nil {
			return fmt.Errorf("%s: %w", sql, err)
		}
	}
	return nil
}

// sourceNumber is the id of source n, and idNumber an id whose moment is that of event i.
const (
	sourceNumber = `md5(@tenant::uuid::text || '/' || n)::uuid`
	idNumber     = `(lpad(to_hex((extract(epoch FROM @until::timestamptz) * 1000)::int8 - @events::int + i), 12, '0') || '7'
    || substr(md5(i::text), 1, 3) || '8' || substr(md5(i::text), 4, 15))::uuid`
)

// filledSources are sources like the tenant's own, each with a route like its.
var filledSources = []filling{
	{"sources", `
INSERT INTO eventhook.source (id, tenant_id, slug, name, provider, verifier, secrets_count, settings)
SELECT ` + sourceNumber + `, s.tenant_id, 'source-' || lpad(n::text, 6, '0'), 'source ' || n, s.provider, s.verifier, s.secrets_count, s.settings
FROM eventhook.source s, generate_series(1, @sources::int) n
WHERE s.tenant_id = @tenant AND s.slug = @like`},
	{"routes", `
INSERT INTO eventhook.route (id, tenant_id, source_id, name, priority, filter_event_types, targets)
SELECT md5('route' || n)::uuid, s.tenant_id, ` + sourceNumber + `, r.name, r.priority, r.filter_event_types, r.targets
FROM eventhook.source s JOIN eventhook.route r ON r.source_id = s.id, generate_series(1, @sources::int) n
WHERE s.tenant_id = @tenant AND s.slug = @like`},
}

// filledEvents come in the order of their numbers. Those that are few are
// spread evenly. A duplicate is of the event before it. Event i has the key
// key-i. None has a payload or actions. A million take well under a minute.
var filledEvents = filling{"events", `
WITH n AS (
    SELECT i, CASE
        WHEN i % (@events::int / @dead::int) = 3 THEN 'dead'
        WHEN i % (@events / @few::int) = 4 THEN 'failed'
        WHEN i % (@events / @few) = 5 THEN 'unrouted'
        WHEN i % (@events / @few) = 6 THEN 'pending'
        WHEN i % (@events / @few) = 7 THEN 'processing'
        WHEN i % (@events / @few) = 9 THEN 'duplicate'
        ELSE 'delivered' END AS status
    FROM generate_series(1, @events) i
), o AS (
    SELECT i, status, ` + idNumber + ` AS id, i - CASE WHEN status = 'duplicate' THEN 1 ELSE 0 END AS original FROM n
), e AS (
    SELECT o.*, CASE WHEN original % (@events / @few) = 1 THEN 1 ELSE 2 + original % (@sources::int - 1) END AS n,
        lag(id) OVER (ORDER BY i) AS before
    FROM o
), keys AS (
    INSERT INTO eventhook.idempotency_key (tenant_id, scope, key, made, expires_at)
    SELECT @tenant, ` + sourceNumber + `::text, 'key-' || i, id, 'infinity' FROM e WHERE status <> 'duplicate'
)
INSERT INTO eventhook.event (id, tenant_id, source_id, duplicate_of, due_at, processed_at, lease_token, retry_count, body_size,
    status, origin, event_type, content_type, idempotency_key, source_ip, last_error)
SELECT id, @tenant, ` + sourceNumber + `, CASE WHEN status = 'duplicate' THEN before END,
    CASE WHEN status IN ('pending', 'processing', 'failed') THEN @later::timestamptz END, CASE WHEN status = 'delivered' THEN @until END,
    1, CASE WHEN status IN ('failed', 'dead') THEN 1 ELSE 0 END, 1024, status, 'source',
    CASE WHEN i % (@events / @few) = 2 THEN @rare_type::text ELSE 'type.' || i % 20 END, 'application/json', 'key-' || original, '192.0.2.1',
    CASE WHEN status IN ('failed', 'dead') THEN 'the target did not answer' END
FROM e ORDER BY i`}

// filledBeside is what is listed beside sources and events: as many as of those
// of what people make, and as many as of these of what is made for each change
// or event.
var filledBeside = []filling{
	{"routes of the first source", `
INSERT INTO eventhook.route (id, tenant_id, source_id, name, priority, filter_event_types, targets)
SELECT ` + idNumber + `, @tenant, r.source_id, r.name || ' ' || i, i, r.filter_event_types, r.targets
FROM (SELECT 1 AS n) one JOIN eventhook.route r ON r.source_id = ` + sourceNumber + `, generate_series(2, @routes::int) i`},
	{"rejections", `
INSERT INTO eventhook.rejection (id, source_id, outcome, reason, detail, method, client_address, header_names, body_size, body_sha256)
SELECT ` + idNumber + `, ` + sourceNumber + `, 'unverified', 'mismatch', 'the signature is another', 'POST', '192.0.2.1',
    '["Content-Type", "X-Hub-Signature-256"]', 1024, sha256('')
FROM (SELECT i, greatest(1, i - @rejections::int + 1) AS n FROM generate_series(1, @sources::int + @rejections - 1) i) each`},
	{"counts of rejections", `
INSERT INTO eventhook.rejection_count (source_id, reason, count, first_at, last_at)
SELECT ` + sourceNumber + `, reason, 50, @until, @until
FROM generate_series(1, @sources::int) n, unnest('{mismatch,timestamp_too_old,signature_missing}'::text[]) reason`},
	{"the sources' usage", `
INSERT INTO eventhook.source_usage (source_id, at, slot, events, failed)
SELECT ` + sourceNumber + `, date_bin('5 minutes', @until, 'epoch') - spans * interval '5 minutes', 1, 10, 1
FROM generate_series(1, @sources::int) n, generate_series(0, 11) spans`},
	{"tenants", `
INSERT INTO eventhook.tenant (id, slug, name) SELECT ` + idNumber + `, 'tenant-' || i, 'tenant ' || i FROM generate_series(1, @sources::int) i`},
	{"the tenants' usage", `
INSERT INTO eventhook.tenant_usage (tenant_id, day, slot, events, bytes)
SELECT id, @until::date - days, 1, 1000, 1000000 FROM eventhook.tenant, generate_series(1, 9) days`},
	{"keys", `
INSERT INTO eventhook.api_key (id, tenant_id, name, prefix, hash, scopes)
SELECT ` + idNumber + `, @tenant, 'key ' || i, 'ehk_0000', sha256(i::text::bytea), '{read}' FROM generate_series(1, @sources::int) i`},
	{"event types", `
INSERT INTO eventhook.event_type (id, tenant_id, name, description, category, visibility, created_at, updated_at)
SELECT ` + idNumber + `, @tenant, 'type.' || i, 'type ' || i, 'types', 'tenant', @until, @until FROM generate_series(1, @sources::int) i`},
	{"audit entries", `
INSERT INTO eventhook.audit_log (id, tenant_id, actor_type, actor_name, action, resource_type, resource_id, resource_name, changes)
SELECT ` + idNumber + `, CASE WHEN i % 2 = 0 THEN @tenant::uuid ELSE md5('tenant' || i % 1000)::uuid END, 'admin', 'admin key',
    CASE WHEN i % (@events / @few::int) = 2 THEN @rare_action ELSE 'source.updated' END, 'source', @tenant, 'github',
    '[{"field":"name","from":"old","to":"new"},{"field":"is_enabled","from":true,"to":false}]'
FROM generate_series(1, @events::int) i`},
	filledExecutions,
	{"promises", `
INSERT INTO eventhook.promise (id, tenant_id, created_at, settled_at, status, idempotency_key, value)
SELECT ` + idNumber + `, @tenant, @until, @until, 'resolved', 'key-' || i, '{}' FROM generate_series(1, @events::int) i`},
}

// filledExecutions have ended.
var filledExecutions = filling{"executions", `
INSERT INTO eventhook.execution (id, tenant_id, created_at, completed_at, max_attempts, type, status, queue, kind, input)
SELECT ` + idNumber + `, @tenant, @until, @until, 3, CASE WHEN i % 2 = 0 THEN 'task' ELSE 'workflow' END, 'completed',
    'queue-' || i % 10, 'kind-' || i % 20, '{}'
FROM generate_series(1, @events::int) i`}
