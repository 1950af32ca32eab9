-- Sources that consume messages of brokers (ADR 47).

-- Instances of the previous version may be running. They read none of the new columns, and such a
-- source has a verifier that accepts no request: they answer 401 at its URL and consume nothing.
SET LOCAL lock_timeout = '10s';

-- consume has the type and the settings of the broker, with [redacted] in place of secrets, which
-- consume_secrets has, sealed. Both are NULL for a source that receives webhooks.
ALTER TABLE eventhook.source ADD COLUMN consume jsonb, ADD COLUMN consume_secrets text;

-- The lease of each source that consumes messages. instance_id is the instance that consumes it, until
-- lease_until; afterwards, or if instance_id is NULL, any instance may take it. lease_token grows with each
-- claim. The holder writes status, error, since (of the status) and lag (NULL: not known) when it
-- renews the lease.
CREATE TABLE eventhook.source_consumer (
    source_id   uuid PRIMARY KEY REFERENCES eventhook.source ON DELETE CASCADE,
    tenant_id   uuid NOT NULL,
    instance_id uuid,
    lease_until timestamptz NOT NULL,
    lease_token bigint NOT NULL DEFAULT 0,
    status      text NOT NULL DEFAULT 'waiting' CHECK (status IN ('running', 'waiting', 'failed')),
    error       text NOT NULL DEFAULT '',
    since       timestamptz NOT NULL,
    lag         bigint
) WITH (fillfactor = 50);
CREATE INDEX source_consumer_tenant ON eventhook.source_consumer (tenant_id);

-- The instances that consume messages, with the number of sources that each can take. An instance writes
-- its row every two seconds; the table may be lost at any time.
CREATE UNLOGGED TABLE eventhook.consumer_instance (
    instance_id uuid PRIMARY KEY,
    capacity    integer NOT NULL,
    at          timestamptz NOT NULL
) WITH (fillfactor = 50);
