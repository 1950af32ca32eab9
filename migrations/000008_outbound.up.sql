-- Outbound: a tenant's subscriptions and their deliveries (ADR 16).

-- The metadata of an event that a subscriber gets in addition to its data: the JSON of an
-- eventhook.Envelope. NULL for an event of a source.
ALTER TABLE eventhook.event_payload ADD COLUMN envelope json;

-- secrets is sealed JSON: the URL, the Authorization header and the signing secrets.
CREATE TABLE eventhook.subscription (
    id              uuid PRIMARY KEY,
    tenant_id       uuid NOT NULL REFERENCES eventhook.tenant ON DELETE CASCADE,
    name            text NOT NULL,
    status          text NOT NULL DEFAULT 'active' CHECK (status IN ('active', 'paused', 'disabled')),
    disabled_reason text,
    event_types     text[] COLLATE "C" NOT NULL,
    filter          json,
    settings        jsonb NOT NULL,
    secrets         text NOT NULL,
    version         bigint NOT NULL DEFAULT 1,
    created_at      timestamptz NOT NULL,
    updated_at      timestamptz NOT NULL
);
CREATE INDEX subscription_tenant ON eventhook.subscription (tenant_id, id);

-- For finding the subscriptions that match a system event, in the transaction that
-- creates the event.
CREATE INDEX subscription_event_types ON eventhook.subscription USING gin (event_types);

-- The columns that change with deliveries. They are not in subscription, since a change of
-- that table evicts the subscription from all caches. dead_in_row counts consecutive dead
-- deliveries. paced_until is the time until which the sends of a subscription with a rate
-- limit are reserved.
CREATE TABLE eventhook.subscription_health (
    subscription_id uuid PRIMARY KEY REFERENCES eventhook.subscription ON DELETE CASCADE,
    dead_in_row     integer NOT NULL DEFAULT 0,
    paced_until     timestamptz
) WITH (fillfactor = 50);

-- The deliveries to a subscription in the five minutes that begin at "at", kept for a day,
-- as source_usage has the events of sources. duration_ms is the sum over the attempts.
CREATE TABLE eventhook.subscription_usage (
    subscription_id uuid NOT NULL,
    at              timestamptz NOT NULL,
    slot            smallint NOT NULL,
    delivered       bigint NOT NULL,
    failed          bigint NOT NULL,
    dead            bigint NOT NULL,
    duration_ms     bigint NOT NULL,
    PRIMARY KEY (subscription_id, at, slot)
) WITH (fillfactor = 70);

-- generation grows with every change of a tenant's subscriptions. An instance that stores
-- an event for subscribers passes the generation against which it matched the event. If
-- that is not the current one, the instance matches the event again. So it misses no
-- subscription that another instance has created, even before it is notified.
CREATE TABLE eventhook.subscription_generation (
    tenant_id  uuid PRIMARY KEY REFERENCES eventhook.tenant ON DELETE CASCADE,
    generation bigint NOT NULL,
    changed_by xid8 NOT NULL DEFAULT pg_current_xact_id() -- other transactions see all changes of one transaction at once, so these count once
) WITH (fillfactor = 50);

-- Every instance caches a tenant's subscriptions and evicts them at the notification
-- "subscription <id> <tenant id>".
CREATE FUNCTION eventhook.notify_subscription() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO eventhook.subscription_generation AS g (tenant_id, generation, changed_by)
        SELECT t.id, 1, pg_current_xact_id() FROM eventhook.tenant t WHERE t.id = coalesce(NEW.tenant_id, OLD.tenant_id)
        ON CONFLICT (tenant_id) DO UPDATE SET generation = g.generation + 1, changed_by = EXCLUDED.changed_by
            WHERE g.changed_by <> EXCLUDED.changed_by;
    PERFORM pg_notify('eventhook_config', 'subscription ' || coalesce(NEW.id, OLD.id) || ' ' || coalesce(NEW.tenant_id, OLD.tenant_id));
    RETURN NULL;
END $$;
CREATE TRIGGER subscription_notify AFTER INSERT OR DELETE ON eventhook.subscription
    FOR EACH ROW EXECUTE FUNCTION eventhook.notify_subscription();
-- Resealing does not change the content.
CREATE TRIGGER subscription_notify_change AFTER UPDATE ON eventhook.subscription
    FOR EACH ROW WHEN (OLD.secrets = NEW.secrets OR OLD.version <> NEW.version) EXECUTE FUNCTION eventhook.notify_subscription();

-- Deliveries: written with their event, settled once or a few times. The id has the same
-- beginning as the event's id. So a delivery is in the partition of its event's day, and
-- the deliveries of an event are adjacent. history has a line of JSON for each attempt. It
-- is appended by the statement that settles the delivery, which writes the row anyway, so
-- attempts have no table (ADR 16). A history of more than 64 KiB loses its oldest lines.
-- restarted_at is the time of the last replay.
CREATE TABLE eventhook.delivery (
    id              uuid NOT NULL,
    tenant_id       uuid NOT NULL,
    subscription_id uuid NOT NULL,
    event_id        uuid NOT NULL,
    due_at          timestamptz,
    completed_at    timestamptz,
    restarted_at    timestamptz,
    lease_token     bigint NOT NULL DEFAULT 0,
    attempts        integer NOT NULL DEFAULT 0,
    retry_count     integer NOT NULL DEFAULT 0,
    status_code     integer,
    status          text COLLATE "C" NOT NULL CHECK (status IN ('pending', 'acquired', 'success', 'failed', 'dead')),
    event_type      text NOT NULL,
    last_error      text,
    history         text,
    PRIMARY KEY (tenant_id, id)
) PARTITION BY RANGE (id);

-- Open deliveries by subscriber: the backlog of one subscriber does not slow down claims
-- for other subscribers, and claims do not read the backlog of a paused subscriber.
CREATE INDEX delivery_due ON eventhook.delivery (subscription_id, due_at) WHERE due_at IS NOT NULL;

-- Lists. Successful deliveries are only in the first index. attempts >= 0 is always true:
-- only statements that contain it can use that index. Otherwise the planner could prefer
-- it to the primary key while a partition is empty.
CREATE INDEX delivery_subscription ON eventhook.delivery (subscription_id, id) WHERE attempts >= 0;
CREATE INDEX delivery_status ON eventhook.delivery (tenant_id, status, id) WHERE status IN ('failed', 'dead');
CREATE INDEX delivery_subscription_status ON eventhook.delivery (subscription_id, status, id) WHERE status IN ('failed', 'dead');
CREATE TABLE eventhook.delivery_default PARTITION OF eventhook.delivery DEFAULT;

-- The gateway itself is an actor: it disables subscriptions.
ALTER TABLE eventhook.audit_log DROP CONSTRAINT audit_log_actor_type_check;
ALTER TABLE eventhook.audit_log ADD CONSTRAINT audit_log_actor_type_check
    CHECK (actor_type IN ('admin', 'admin_on_behalf_of', 'api_key', 'operator', 'system')) NOT VALID;
