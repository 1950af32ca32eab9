-- Outbound: who gets a tenant's events, and what is owed to them (ADR 16).

-- What a subscriber is told about an event beside its data: JSON of an
-- eventhook.Envelope. NULL for what a source has sent.
ALTER TABLE eventhook.event_payload ADD COLUMN envelope json;

-- secrets is sealed JSON: the URL, the Authorization header and what signs.
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

-- Which of a tenant's many subscriptions an event of the gateway's own
-- concerns, in the transaction that makes it.
CREATE INDEX subscription_event_types ON eventhook.subscription USING gin (event_types);

-- What changes with deliveries, apart from the subscription, so that nobody
-- forgets its configuration because of it. dead_in_row counts deliveries dead in
-- a row; paced_until is up to when the sends of one with a rate are given away.
CREATE TABLE eventhook.subscription_health (
    subscription_id uuid PRIMARY KEY REFERENCES eventhook.subscription ON DELETE CASCADE,
    dead_in_row     integer NOT NULL DEFAULT 0,
    paced_until     timestamptz
) WITH (fillfactor = 50);

-- What was sent to a subscriber in the five minutes from at on, for a day, as
-- source_usage is for sources. duration_ms is the sum of the attempts'.
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

-- Grows with every change of a tenant's subscriptions. Whoever stores an event
-- for subscribers says against which generation it was matched, and matches it
-- again if that is not the current one: so no instance forgets a subscription
-- that another has made, even if it has not heard of it.
CREATE TABLE eventhook.subscription_generation (
    tenant_id  uuid PRIMARY KEY REFERENCES eventhook.tenant ON DELETE CASCADE,
    generation bigint NOT NULL,
    changed_by xid8 NOT NULL DEFAULT pg_current_xact_id() -- others see all of its changes at once, so they count once
) WITH (fillfactor = 50);

-- Every instance keeps a tenant's subscriptions in memory and forgets them when
-- it hears "subscription <id> <tenant id>".
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
-- What is sealed anew says the same.
CREATE TRIGGER subscription_notify_change AFTER UPDATE ON eventhook.subscription
    FOR EACH ROW WHEN (OLD.secrets = NEW.secrets OR OLD.version <> NEW.version) EXECUTE FUNCTION eventhook.notify_subscription();

-- Deliveries: written with their event, settled once or a few times. The id
-- begins as its event's does, so a delivery lies in the partition of its event's
-- day, and an event's deliveries side by side. history has a line of JSON for
-- each attempt: it is only ever added to, with the settle that writes the row
-- anyway, so attempts have no table of their own (ADR 16). What is beyond 64 KiB
-- loses its oldest lines. restarted_at is when a person had it begun anew.
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

-- What is owed, subscriber by subscriber: so that the backlog of one is no
-- other's, and a paused one's costs nothing.
CREATE INDEX delivery_due ON eventhook.delivery (subscription_id, due_at) WHERE due_at IS NOT NULL;

-- Lists. Deliveries that go well are only in the first. attempts >= 0 holds
-- always: only statements that say it may use that index, lest the planner
-- prefer it to the primary key while a partition is empty.
CREATE INDEX delivery_subscription ON eventhook.delivery (subscription_id, id) WHERE attempts >= 0;
CREATE INDEX delivery_status ON eventhook.delivery (tenant_id, status, id) WHERE status IN ('failed', 'dead');
CREATE INDEX delivery_subscription_status ON eventhook.delivery (subscription_id, status, id) WHERE status IN ('failed', 'dead');
CREATE TABLE eventhook.delivery_default PARTITION OF eventhook.delivery DEFAULT;

-- The gateway itself disables subscriptions.
ALTER TABLE eventhook.audit_log DROP CONSTRAINT audit_log_actor_type_check;
ALTER TABLE eventhook.audit_log ADD CONSTRAINT audit_log_actor_type_check
    CHECK (actor_type IN ('admin', 'admin_on_behalf_of', 'api_key', 'operator', 'system')) NOT VALID;
