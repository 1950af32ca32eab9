-- Usage: how much tenants store and sources receive (ADR 12). Instances count
-- in memory and add to these rows now and then, for all that they serve in one
-- statement. slot is an instance's own number, drawn at its start, so that
-- instances rarely wait for each other. No foreign keys: a count must not fail
-- because what it is about has just been deleted.

-- What a tenant has stored on a day, UTC. A day's rows go after its bodies, so
-- that all rows of a tenant sum up to what it keeps.
CREATE TABLE eventhook.tenant_usage (
    tenant_id uuid NOT NULL,
    day       date NOT NULL,
    slot      smallint NOT NULL,
    events    bigint NOT NULL,
    bytes     bigint NOT NULL,
    PRIMARY KEY (tenant_id, day, slot)
) WITH (fillfactor = 70);

-- What a source has received in the five minutes from at on, for a day.
CREATE TABLE eventhook.source_usage (
    source_id uuid NOT NULL,
    at        timestamptz NOT NULL,
    slot      smallint NOT NULL,
    events    bigint NOT NULL,
    failed    bigint NOT NULL,
    PRIMARY KEY (source_id, at, slot)
) WITH (fillfactor = 70);
