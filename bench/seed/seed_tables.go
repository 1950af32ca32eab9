package seed

// sourceNumber is the id of source n. idNumber is an id with the receipt of event i.
const (
	sourceNumber = `md5(@tenant::uuid::text || '/' || n)::uuid`
	idNumber     = `(lpad(to_hex((extract(epoch FROM @until::timestamptz) * 1000)::int8 - @events::int + i), 12, '0') || '7'
    || substr(md5(i::text), 1, 3) || '8' || substr(md5(i::text), 4, 15))::uuid`
)

// Sources are copies of the source that Open names, and copies of its routes. A copied
// verifier cannot be decrypted, because a sealed text is bound to its row.
var Sources = []Table{SourceCopies, routeCopies}

// SourceCopies are the sources without routes.
var SourceCopies = Table{"sources", `
INSERT INTO eventhook.source (id, tenant_id, slug, name, provider, verifier, secrets_count, settings)
SELECT ` + sourceNumber + `, s.tenant_id, 'source-' || lpad(n::text, 6, '0'), 'source ' || n, s.provider, s.verifier, s.secrets_count, s.settings
FROM eventhook.source s, generate_series(1, @sources::int) n
WHERE s.tenant_id = @tenant AND s.slug = @like`}

var routeCopies = Table{"routes", `
INSERT INTO eventhook.route (id, tenant_id, source_id, name, priority, filter_event_types, targets)
SELECT md5('route' || n)::uuid, s.tenant_id, ` + sourceNumber + `, r.name, r.priority, r.filter_event_types, r.targets
FROM eventhook.source s JOIN eventhook.route r ON r.source_id = s.id, generate_series(1, @sources::int) n
WHERE s.tenant_id = @tenant AND s.slug = @like`}

// Events are inserted in the order of their ids, without payloads and actions. Rare
// events are spread evenly. A duplicate repeats the event before it. Event i has the
// idempotency key key-i. A million events take well under a minute.
var Events = Table{"events", `
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

// otherTables are the tables of all other lists. Rows that users create are as many as the
// sources; rows that the gateway writes for a change or an event are as many as the
// events.
var otherTables = []Table{
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
	CompletedExecutions,
	{"promises", `
INSERT INTO eventhook.promise (id, tenant_id, created_at, settled_at, status, idempotency_key, value)
SELECT ` + idNumber + `, @tenant, @until, @until, 'resolved', 'key-' || i, '{}' FROM generate_series(1, @events::int) i`},
}

// CompletedExecutions are as many as the events.
var CompletedExecutions = Table{"executions", `
INSERT INTO eventhook.execution (id, tenant_id, created_at, completed_at, max_attempts, type, status, queue, kind, input)
SELECT ` + idNumber + `, @tenant, @until, @until, 3, CASE WHEN i % 2 = 0 THEN 'task' ELSE 'workflow' END, 'completed',
    'queue-' || i % 10, 'kind-' || i % 20, '{}'
FROM generate_series(1, @events::int) i`}
