-- Management: versions of resources, and an audit log of their changes.

-- version grows with every change, so that two users who edit the same resource do not
-- overwrite each other's changes unnoticed.
ALTER TABLE eventhook.tenant
    ADD COLUMN version            bigint NOT NULL DEFAULT 1,
    ADD COLUMN max_events_per_day bigint CHECK (max_events_per_day >= 0),
    ADD COLUMN max_storage_bytes  bigint CHECK (max_storage_bytes >= 0);

-- last_used_at is written from time to time, for many keys together.
ALTER TABLE eventhook.api_key ADD COLUMN last_used_at timestamptz;

ALTER TABLE eventhook.source ADD COLUMN version bigint NOT NULL DEFAULT 1;
CREATE INDEX source_tenant ON eventhook.source (tenant_id, id);

-- filter and transform are json, not jsonb, so that numbers stay as written.
ALTER TABLE eventhook.route
    ADD COLUMN version           bigint NOT NULL DEFAULT 1,
    ADD COLUMN filter            json,
    ADD COLUMN filter_expression text NOT NULL DEFAULT '',
    ADD COLUMN filter_function   text NOT NULL DEFAULT '',
    ADD COLUMN transform         json;
CREATE INDEX route_source ON eventhook.route (source_id, id);

-- Audit log: one row per change, written in the transaction of the change. The id has the
-- time. There are no foreign keys, since the log outlives the resources.
CREATE TABLE eventhook.audit_log (
    id             uuid PRIMARY KEY,
    tenant_id      uuid,
    actor_type     text NOT NULL CHECK (actor_type IN ('admin', 'admin_on_behalf_of', 'api_key', 'operator')),
    actor_id       uuid, -- the id of the key
    actor_name     text NOT NULL,
    action         text COLLATE "C" NOT NULL,
    resource_type  text NOT NULL,
    resource_id    uuid,
    resource_name  text NOT NULL,
    changes        json NOT NULL,
    source_ip      text,
    request_id     text,
    correlation_id text
);
CREATE INDEX audit_log_tenant ON eventhook.audit_log (tenant_id, id);
CREATE INDEX audit_log_action ON eventhook.audit_log (action, id);
CREATE INDEX audit_log_tenant_action ON eventhook.audit_log (tenant_id, action, id);

-- A tenant's descriptions of its event types. They do not affect processing.
CREATE TABLE eventhook.event_type (
    tenant_id   uuid NOT NULL REFERENCES eventhook.tenant ON DELETE CASCADE,
    name        text COLLATE "C" NOT NULL,
    id          uuid NOT NULL,
    version     bigint NOT NULL DEFAULT 1,
    description text NOT NULL,
    category    text NOT NULL,
    schema      json,
    visibility  text NOT NULL CHECK (visibility IN ('tenant', 'admin')),
    created_at  timestamptz NOT NULL,
    updated_at  timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, name)
);
CREATE UNIQUE INDEX event_type_tenant ON eventhook.event_type (tenant_id, id);
