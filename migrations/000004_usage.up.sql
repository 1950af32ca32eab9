-- Usage: how much tenants store and sources receive (ADR 12). Instances count in memory
-- and add to these rows from time to time, in one statement for all tenants and sources.
-- slot is a random number of an instance, so that instances rarely wait for each other.
-- There are no foreign keys: counting must not fail because a tenant or a source was
-- deleted.

-- The events and bytes that a tenant stored on a day (UTC). The rows of a day are deleted
-- after its bodies, so that the sum over a tenant's rows is its storage.
CREATE TABLE eventhook.tenant_usage (
    tenant_id uuid NOT NULL,
    day       date NOT NULL,
    slot      smallint NOT NULL,
    events    bigint NOT NULL,
    bytes     bigint NOT NULL,
    PRIMARY KEY (tenant_id, day, slot)
) WITH (fillfactor = 70);

-- The events that a source received in the five minutes that begin at "at", kept for a day.
CREATE TABLE eventhook.source_usage (
    source_id uuid NOT NULL,
    at        timestamptz NOT NULL,
    slot      smallint NOT NULL,
    events    bigint NOT NULL,
    failed    bigint NOT NULL,
    PRIMARY KEY (source_id, at, slot)
) WITH (fillfactor = 70);
