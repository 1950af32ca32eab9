-- The schema of the gateway; see docs/architecture.md. docs/states.md has the invariants
-- of the queues (due_at, lease_token).

-- Configuration ------------------------------------------------------------

CREATE TABLE eventhook.tenant (
    id         uuid PRIMARY KEY,
    slug       text NOT NULL UNIQUE,
    name       text NOT NULL,
    status     text NOT NULL DEFAULT 'active' CHECK (status IN ('active', 'suspended', 'closed')),
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now()
);

-- hash is the SHA-256 of the key. The key is random, so it needs no salt.
CREATE TABLE eventhook.api_key (
    id         uuid PRIMARY KEY,
    tenant_id  uuid NOT NULL REFERENCES eventhook.tenant ON DELETE CASCADE,
    name       text NOT NULL,
    prefix     text NOT NULL,
    hash       bytea NOT NULL UNIQUE,
    scopes     text[] NOT NULL,
    expires_at timestamptz,
    created_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX api_key_tenant ON eventhook.api_key (tenant_id, id);

-- verifier is sealed JSON, which contains the source's secrets.
CREATE TABLE eventhook.source (
    id            uuid PRIMARY KEY,
    tenant_id     uuid NOT NULL REFERENCES eventhook.tenant ON DELETE CASCADE,
    slug          text NOT NULL,
    name          text NOT NULL,
    provider      text NOT NULL DEFAULT '',
    verifier      text NOT NULL,
    secrets_count integer NOT NULL,
    settings      jsonb NOT NULL,
    is_enabled    boolean NOT NULL DEFAULT true,
    created_at    timestamptz NOT NULL DEFAULT now(),
    updated_at    timestamptz NOT NULL DEFAULT now(),
    UNIQUE (tenant_id, slug)
);

CREATE TABLE eventhook.route (
    id                 uuid PRIMARY KEY,
    tenant_id          uuid NOT NULL REFERENCES eventhook.tenant ON DELETE CASCADE,
    source_id          uuid NOT NULL REFERENCES eventhook.source ON DELETE CASCADE,
    name               text NOT NULL,
    priority           integer NOT NULL DEFAULT 0,
    is_enabled         boolean NOT NULL DEFAULT true,
    filter_event_types text[] NOT NULL,
    targets            jsonb NOT NULL,
    created_at         timestamptz NOT NULL DEFAULT now(),
    updated_at         timestamptz NOT NULL DEFAULT now(),
    UNIQUE (source_id, name)
);

-- Every instance listens on eventhook_config and evicts the named row from its caches:
-- "source <source id> <tenant slug>/<source slug>" or "tenant <id> <slug>". A trigger
-- notifies, so that no change of a row is missed.
CREATE FUNCTION eventhook.notify_config() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    row_json jsonb := to_jsonb(coalesce(NEW, OLD));
BEGIN
    IF TG_TABLE_NAME = 'tenant' THEN
        PERFORM pg_notify('eventhook_config', 'tenant ' || (row_json->>'id') || ' ' || (row_json->>'slug'));
    ELSE
        PERFORM pg_notify('eventhook_config', 'source ' || s.id || ' ' || t.slug || '/' || s.slug)
        FROM (SELECT coalesce(row_json->>'source_id', row_json->>'id')::uuid AS id,
                     row_json->>'slug' AS slug, (row_json->>'tenant_id')::uuid AS tenant_id) k
        JOIN eventhook.tenant t ON t.id = k.tenant_id
        LEFT JOIN eventhook.source src ON src.id = k.id
        CROSS JOIN LATERAL (SELECT k.id, coalesce(src.slug, k.slug, '') AS slug) s;
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER tenant_notify AFTER INSERT OR UPDATE OR DELETE ON eventhook.tenant
    FOR EACH ROW EXECUTE FUNCTION eventhook.notify_config();
CREATE TRIGGER source_notify AFTER INSERT OR UPDATE OR DELETE ON eventhook.source
    FOR EACH ROW EXECUTE FUNCTION eventhook.notify_config();
CREATE TRIGGER route_notify AFTER INSERT OR UPDATE OR DELETE ON eventhook.route
    FOR EACH ROW EXECUTE FUNCTION eventhook.notify_config();

-- Events: small, settled once or a few times -----------------------------------
-- Partitioned by the time in the UUIDv7. This is the time of receipt, which has no column
-- of its own. A row without a partition is stored in the default partition and moved
-- later: a missing partition never fails an event.

CREATE TABLE eventhook.event (
    id              uuid NOT NULL,
    tenant_id       uuid NOT NULL,
    source_id       uuid,
    duplicate_of    uuid,
    due_at          timestamptz,
    processed_at    timestamptz,
    lease_token     bigint NOT NULL DEFAULT 0,
    retry_count     integer NOT NULL DEFAULT 0,
    body_size       integer NOT NULL DEFAULT 0,
    status          text COLLATE "C" NOT NULL CHECK (status IN
        ('pending', 'processing', 'delivered', 'unrouted', 'failed', 'dead', 'duplicate')),
    origin          text COLLATE "C" NOT NULL CHECK (origin IN ('source', 'api', 'route', 'system')),
    event_type      text NOT NULL DEFAULT '',
    content_type    text NOT NULL DEFAULT '',
    idempotency_key text,
    source_ip       text,
    trace_id        text,
    request_id      text,
    correlation_id  text,
    last_error      text,
    PRIMARY KEY (tenant_id, id)
) PARTITION BY RANGE (id);
CREATE INDEX event_due ON eventhook.event (due_at) WHERE due_at IS NOT NULL;
CREATE TABLE eventhook.event_default PARTITION OF eventhook.event DEFAULT;

-- headers is an HTTP/1.1 header block without credentials. body has the exact bytes.
CREATE TABLE eventhook.event_payload (
    event_id uuid NOT NULL PRIMARY KEY,
    headers  bytea NOT NULL,
    body     bytea NOT NULL
) PARTITION BY RANGE (event_id);
CREATE TABLE eventhook.event_payload_default PARTITION OF eventhook.event_payload DEFAULT;

-- One row per event, route and target: the primary key makes an action happen once. The
-- row is in the partition of its event's day and is dropped with it.
CREATE TABLE eventhook.event_action (
    event_id           uuid NOT NULL,
    route_id           uuid NOT NULL,
    target_index       smallint NOT NULL,
    id                 uuid NOT NULL,
    route_name         text NOT NULL,
    target_type        text NOT NULL,
    status             text NOT NULL CHECK (status IN ('pending', 'success', 'failed', 'skipped')),
    attempts           integer NOT NULL,
    execution_id       uuid,
    promise_id         uuid,
    published_event_id uuid,
    error_message      text,
    started_at         timestamptz NOT NULL,
    completed_at       timestamptz,
    PRIMARY KEY (event_id, route_id, target_index)
) PARTITION BY RANGE (event_id);
CREATE TABLE eventhook.event_action_default PARTITION OF eventhook.event_action DEFAULT;

-- This table alone decides whether a key was seen before. For events, scope is the
-- source's id; for effects of targets, it is their type and kind, such as task/build. made
-- is the id of the row that the key stands for.
CREATE TABLE eventhook.idempotency_key (
    tenant_id  uuid NOT NULL,
    scope      text COLLATE "C" NOT NULL,
    key        text COLLATE "C" NOT NULL,
    made       uuid NOT NULL,
    expires_at timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, scope, key)
);

-- Effects of routes -------------------------------------------------------------
-- One table for workflows and tasks, so that one claim serves both (ADR 2).
-- If the input is the event's body, input is NULL and the body is not copied.

CREATE TABLE eventhook.execution (
    id              uuid PRIMARY KEY,
    tenant_id       uuid NOT NULL,
    event_id        uuid,
    due_at          timestamptz,
    created_at      timestamptz NOT NULL,
    completed_at    timestamptz,
    lease_token     bigint NOT NULL DEFAULT 0,
    attempt         integer NOT NULL DEFAULT 0,
    max_attempts    integer NOT NULL,
    input_size      integer NOT NULL DEFAULT 0, -- in bytes, to limit the inputs of a claim
    type            text COLLATE "C" NOT NULL CHECK (type IN ('workflow', 'task')),
    status          text COLLATE "C" NOT NULL CHECK (status IN
        ('pending', 'running', 'completed', 'failed', 'dead', 'suspended', 'cancelled')),
    queue           text COLLATE "C" NOT NULL,
    kind            text COLLATE "C" NOT NULL,
    idempotency_key text,
    input           json,
    state           json,
    output          json,
    error           text
) WITH (fillfactor = 70);
CREATE INDEX execution_due ON eventhook.execution (tenant_id, queue, due_at) WHERE due_at IS NOT NULL;
CREATE INDEX execution_tenant ON eventhook.execution (tenant_id, id);
CREATE INDEX execution_event ON eventhook.execution (event_id) WHERE completed_at IS NULL;

-- A held promise is an outcome that came before the promise was created.
CREATE TABLE eventhook.promise (
    id                    uuid PRIMARY KEY,
    tenant_id             uuid NOT NULL,
    workflow_execution_id uuid,
    due_at                timestamptz,
    expires_at            timestamptz,
    created_at            timestamptz NOT NULL,
    settled_at            timestamptz,
    is_held               boolean NOT NULL DEFAULT false,
    status                text NOT NULL CHECK (status IN ('pending', 'resolved', 'rejected', 'expired')),
    idempotency_key       text COLLATE "C" NOT NULL,
    value                 json,
    error                 text,
    UNIQUE (tenant_id, idempotency_key)
);
CREATE INDEX promise_due ON eventhook.promise (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX promise_tenant ON eventhook.promise (tenant_id, id);

-- The promises that a suspended workflow awaits.
CREATE TABLE eventhook.execution_await (
    promise_id   uuid NOT NULL REFERENCES eventhook.promise ON DELETE CASCADE,
    execution_id uuid NOT NULL REFERENCES eventhook.execution ON DELETE CASCADE,
    PRIMARY KEY (promise_id, execution_id)
);
CREATE INDEX execution_await_execution ON eventhook.execution_await (execution_id);
