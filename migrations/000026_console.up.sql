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
