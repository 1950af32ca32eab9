-- The web console and the portal.
SET LOCAL lock_timeout = '10s';

-- Sign-in sessions (ADR 41). Instances of the previous version write no entry with via, and read
-- entries with every actor type.

-- via is the program through which the actor made the change; NULL for the API and for commands.
ALTER TABLE eventhook.audit_log ADD COLUMN via text CHECK (via IN ('console', 'portal'));
ALTER TABLE eventhook.audit_log DROP CONSTRAINT audit_log_actor_type_check;
ALTER TABLE eventhook.audit_log ADD CONSTRAINT audit_log_actor_type_check
    CHECK (actor_type IN ('admin', 'admin_on_behalf_of', 'api_key', 'session', 'operator', 'system')) NOT VALID;

-- Browsers that are signed in. token_hash is the SHA-256 of a random token. data is the kind, the
-- name, and the hash of an API key or a grant; it has no secret.
CREATE TABLE eventhook.web_session (
    token_hash   bytea PRIMARY KEY,
    id           uuid NOT NULL,
    kind         text NOT NULL CHECK (kind IN ('console', 'portal')),
    data         json NOT NULL,
    created_at   timestamptz NOT NULL,
    last_seen_at timestamptz NOT NULL,
    expires_at   timestamptz NOT NULL
) WITH (fillfactor = 80);
CREATE INDEX web_session_expires ON eventhook.web_session (expires_at);

-- Links that sign a browser in once. code_hash is the SHA-256 of a random code. session_expires_at
-- is NULL if the session has the lifetime of every session of its kind.
CREATE TABLE eventhook.web_link (
    code_hash          bytea PRIMARY KEY,
    kind               text NOT NULL CHECK (kind IN ('console', 'portal')),
    data               json NOT NULL,
    session_expires_at timestamptz,
    expires_at         timestamptz NOT NULL
);
CREATE INDEX web_link_expires ON eventhook.web_link (expires_at);

-- Sessions by the link to the portal that started them; NULL for others.
ALTER TABLE eventhook.web_session ADD COLUMN link_id uuid;
CREATE INDEX web_session_link ON eventhook.web_session (link_id, created_at) WHERE link_id IS NOT NULL;

-- narrowed_at is when scope_filter was last changed to exclude events that matched before; NULL:
-- never. Nothing is known about subscriptions that exist already, so they get the present time.
ALTER TABLE eventhook.subscription ADD COLUMN narrowed_at timestamptz DEFAULT now();
ALTER TABLE eventhook.subscription ALTER COLUMN narrowed_at DROP DEFAULT;

-- Event types that customers can choose in the portal.
ALTER TABLE eventhook.event_type DROP CONSTRAINT event_type_visibility_check;
ALTER TABLE eventhook.event_type ADD CONSTRAINT event_type_visibility_check CHECK (visibility IN ('portal', 'tenant', 'admin')) NOT VALID;

-- The traffic of tenants, sources and subscriptions, kept for 25 hours. A row counts what an instance
-- noted within the span that begins at "at" and takes span seconds: 60 or 600. resource_id is the id
-- of the source or subscription, or that of the tenant for its sum. latency has the deliveries by
-- the time from the receipt of the event: bucket i, from 1 on, those below 2^(i-1) ms; NULL: none.
-- Instances add to these rows every few seconds. slot is a random number of an instance, as in
-- tenant_usage. There are no foreign keys: counting must not fail because a resource was deleted.
CREATE TABLE eventhook.traffic (
    tenant_id       uuid NOT NULL,
    resource_id     uuid NOT NULL,
    at              timestamptz NOT NULL,
    span            smallint NOT NULL,
    slot            smallint NOT NULL,
    received        bigint NOT NULL,
    refused         bigint NOT NULL,
    duplicates      bigint NOT NULL,
    succeeded       bigint NOT NULL,
    failed          bigint NOT NULL,
    sent            bigint NOT NULL,
    failed_attempts bigint NOT NULL,
    dead            bigint NOT NULL,
    latency         bigint[],
    PRIMARY KEY (tenant_id, span, resource_id, at, slot)
) WITH (fillfactor = 70);
