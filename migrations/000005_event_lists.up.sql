-- Lists of events: an index for each filter alone finds few events among millions. Storing
-- and settling an event has to write its index entries, so most events are in two of
-- these indexes only.
--
-- body_size >= 0 is always true. It is a condition for the planner: only statements that
-- contain it can use these indexes. Statements that look up one event by its key do not
-- contain it. In an empty partition the planner would prefer one of these indexes to the
-- primary key, and keep that plan while the partition fills.

-- Instances of the previous version may be running. This migration locks the tables that
-- they write, at its start and in the order in which accepting events locks them. The
-- instances wait until it is done: some seconds for a million events.
SET LOCAL lock_timeout = '10s';
LOCK TABLE eventhook.idempotency_key IN ACCESS EXCLUSIVE MODE;
LOCK TABLE eventhook.event IN SHARE MODE;

CREATE INDEX event_source ON eventhook.event (source_id, id) WHERE body_size >= 0;
CREATE INDEX event_type_list ON eventhook.event (tenant_id, event_type, id) WHERE body_size >= 0;

-- Events that need attention. Events without a fault are never in these indexes.
CREATE INDEX event_status ON eventhook.event (tenant_id, status, id)
    WHERE body_size >= 0 AND status IN ('failed', 'dead', 'unrouted', 'duplicate');
CREATE INDEX event_source_status ON eventhook.event (source_id, status, id)
    WHERE body_size >= 0 AND status IN ('failed', 'dead', 'unrouted', 'duplicate');

-- The first event with a key is found through idempotency_key, in any scope; its
-- duplicates through this index.
CREATE INDEX event_duplicate ON eventhook.event (tenant_id, idempotency_key, id)
    WHERE body_size >= 0 AND duplicate_of IS NOT NULL;
ALTER TABLE eventhook.idempotency_key
    DROP CONSTRAINT idempotency_key_pkey,
    ADD PRIMARY KEY (tenant_id, key, scope);
