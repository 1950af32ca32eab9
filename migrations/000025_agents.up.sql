-- Agents: programs in networks that the gateway cannot reach. They claim deliveries over the API
-- and send them (ADR 39).

-- Instances of the previous version may be running. They wait until the index is built; it is
-- empty, so this takes one read of the deliveries. No table is rewritten. An earlier version
-- claims no delivery to a destination with labels, and reads none of the new columns.
SET LOCAL lock_timeout = '10s';
LOCK TABLE eventhook.delivery IN ACCESS EXCLUSIVE MODE;

-- labels are the gateway's knowledge of the agent; an agent never states its own. version grows
-- with every change of the name or the labels. A claim is the heartbeat: it sets last_seen_at, and
-- program_version to the version that the agent reports. is_online becomes false when the agent has
-- made no claim for 90 s.
CREATE TABLE eventhook.agent (
    id              uuid PRIMARY KEY,
    tenant_id       uuid NOT NULL REFERENCES eventhook.tenant ON DELETE CASCADE,
    name            text NOT NULL,
    labels          text[] NOT NULL,
    version         bigint NOT NULL DEFAULT 1,
    is_online       boolean NOT NULL DEFAULT false,
    last_seen_at    timestamptz,
    program_version text NOT NULL DEFAULT '',
    created_at      timestamptz NOT NULL,
    updated_at      timestamptz NOT NULL,
    UNIQUE (tenant_id, name)
) WITH (fillfactor = 70);
CREATE INDEX agent_tenant ON eventhook.agent (tenant_id, id);

-- The agent of a key; NULL for a key of the tenant.
ALTER TABLE eventhook.api_key ADD COLUMN agent_id uuid REFERENCES eventhook.agent ON DELETE CASCADE;
CREATE INDEX api_key_agent ON eventhook.api_key (agent_id) WHERE agent_id IS NOT NULL;

-- acquired_by is the instance or the agent with the last lease. NULL: the delivery was not leased,
-- or by an instance of an earlier version.
-- agent_leases counts the leases of agents in a row that have brought no result, with the current
-- one; NULL: the last lease is not an agent's. A claim by an agent sets it to 1, or, if it takes
-- over an acquired delivery, increases it. A probe by an agent sets it to 0, or to -1 if the
-- delivery was dead, and counts as no lease. Every other claim sets it to NULL. A settlement leaves it
-- as it is: it only counts while the delivery is acquired.
ALTER TABLE eventhook.delivery ADD COLUMN acquired_by uuid, ADD COLUMN agent_leases smallint;

-- The deliveries that agents hold.
CREATE INDEX delivery_held ON eventhook.delivery (tenant_id, destination_id, due_at, acquired_by)
    WHERE agent_leases IS NOT NULL AND status = 'acquired';
