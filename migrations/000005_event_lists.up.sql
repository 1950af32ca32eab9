-- Lists of events: each filter alone finds its few among millions in an index.
-- They are paid for when an event is stored and again when it is settled, so
-- those of the common events are two.
--
-- body_size >= 0 holds always. It is there for the planner: only statements
-- that say it may use these indexes, and those that look for one event by its
-- key do not. In an empty partition the planner would prefer any of these to
-- the primary key, and keep to it while the partition fills.

-- Instances of the former version may be at work. What they write is locked at
-- once and in the order in which accepting takes it; they wait until this is
-- done, some seconds for a million events.
SET LOCAL lock_timeout = '10s';
LOCK TABLE eventhook.idempotency_key IN ACCESS EXCLUSIVE MODE;
LOCK TABLE eventhook.event IN SHARE MODE;

CREATE INDEX event_source ON eventhook.event (source_id, id) WHERE body_size >= 0;
CREATE INDEX event_type_list ON eventhook.event (tenant_id, event_type, id) WHERE body_size >= 0;

-- What wants attention. Events that go well are never in these.
CREATE INDEX event_status ON eventhook.event (tenant_id, status, id)
    WHERE body_size >= 0 AND status IN ('failed', 'dead', 'unrouted', 'duplicate');
CREATE INDEX event_source_status ON eventhook.event (source_id, status, id)
    WHERE body_size >= 0 AND status IN ('failed', 'dead', 'unrouted', 'duplicate');

-- The first event with a key is found by the key itself, whatever its scope;
-- its duplicates by their own.
CREATE INDEX event_duplicate ON eventhook.event (tenant_id, idempotency_key, id)
    WHERE body_size >= 0 AND duplicate_of IS NOT NULL;
ALTER TABLE eventhook.idempotency_key
    DROP CONSTRAINT idempotency_key_pkey,
    ADD PRIMARY KEY (tenant_id, key, scope);
