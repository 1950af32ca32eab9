-- Recovery after an outage, and replays as background jobs.

-- Instances of the previous version may be running. They wait until the migration is done;
-- no table is rewritten.
SET LOCAL lock_timeout = '10s';
LOCK TABLE eventhook.delivery IN ACCESS EXCLUSIVE MODE;

-- recoveries counts how often recovery has released the delivery; released_by is the last
-- replay that did.
ALTER TABLE eventhook.delivery
    ADD COLUMN recoveries  smallint NOT NULL DEFAULT 0,
    ADD COLUMN released_by uuid;

-- Why the subscription is disabled; NULL: it is not, or an earlier version disabled it.
-- recovered_at is when a subscription that failures had disabled became active again:
-- deliveries of older events were held.
ALTER TABLE eventhook.subscription
    ADD COLUMN disabled_by  text CHECK (disabled_by IN ('failures', 'gone', 'user', 'tenant')),
    ADD COLUMN recovered_at timestamptz;

-- dead_since is the time of the first failure behind dead_in_row. The other columns are the
-- outage of a subscription: failing_since is the time of the first failure after a success,
-- and is only set if the circuit breaker of an instance opened or failures disabled the
-- subscription. is_held: failures have disabled it, and its deliveries are held; only enabling
-- it ends the outage. One instance, until probing_until, sends the oldest missed delivery as a
-- probe at next_probe_at; probes counts the failed probes. outage_ended_at is the end of the
-- last outage: it explains the age of older deliveries.
ALTER TABLE eventhook.subscription_health
    ADD COLUMN dead_since        timestamptz,
    ADD COLUMN failing_since     timestamptz,
    ADD COLUMN circuit_opened_at timestamptz,
    ADD COLUMN is_held           boolean NOT NULL DEFAULT false,
    ADD COLUMN next_probe_at     timestamptz,
    ADD COLUMN probing_until     timestamptz,
    ADD COLUMN probes            integer NOT NULL DEFAULT 0,
    ADD COLUMN outage_ended_at   timestamptz;
CREATE INDEX subscription_health_probe ON eventhook.subscription_health (next_probe_at) WHERE next_probe_at IS NOT NULL;
CREATE INDEX subscription_health_ended ON eventhook.subscription_health (outage_ended_at) WHERE outage_ended_at IS NOT NULL;

-- A replay releases deliveries of the events from "since" until "until", oldest first. The
-- gateway creates one of the kind recovery when an outage ends: it releases the deliveries
-- that became dead (completed_at) in the outage from "since" until "until", whatever the time
-- of their events, if these are younger than recovery.max_age_hours. cursor is the id of the last
-- event that was handled. A running replay is leased by one instance until due_at.
-- matched counts events, queued deliveries; sent and failed count the queued deliveries that
-- have ended.
CREATE TABLE eventhook.replay (
    id              uuid PRIMARY KEY,
    tenant_id       uuid NOT NULL,
    subscription_id uuid NOT NULL REFERENCES eventhook.subscription ON DELETE CASCADE,
    kind            text NOT NULL CHECK (kind IN ('replay', 'recovery')),
    status          text NOT NULL DEFAULT 'running' CHECK (status IN ('running', 'completed', 'cancelled')),
    since           timestamptz NOT NULL,
    until           timestamptz NOT NULL,
    statuses        text[] NOT NULL DEFAULT '{dead}',
    event_types     text[] NOT NULL DEFAULT '{}',
    missing         boolean NOT NULL DEFAULT false,
    max_count       bigint,
    request_hash    bytea,
    cursor          uuid,
    estimated       bigint NOT NULL DEFAULT 0,
    matched         bigint NOT NULL DEFAULT 0,
    queued          bigint NOT NULL DEFAULT 0,
    sent            bigint NOT NULL DEFAULT 0,
    failed          bigint NOT NULL DEFAULT 0,
    due_at          timestamptz,
    lease_token     bigint NOT NULL DEFAULT 0,
    created_at      timestamptz NOT NULL,
    finished_at     timestamptz,
    CHECK ((status = 'running') = (due_at IS NOT NULL))
) WITH (fillfactor = 70);
CREATE INDEX replay_subscription ON eventhook.replay (subscription_id, id);
CREATE INDEX replay_due ON eventhook.replay (due_at) WHERE due_at IS NOT NULL;
CREATE UNIQUE INDEX replay_request ON eventhook.replay (subscription_id, request_hash) WHERE status = 'running' AND request_hash IS NOT NULL;
