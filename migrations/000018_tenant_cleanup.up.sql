-- Instances of the previous version may be running. Only changes of tenants wait for the locks
-- on tenant.
SET LOCAL lock_timeout = '10s';

-- The background work after a tenant was closed: its open work is ended, and its data is
-- deleted if that is asked for (ADR 26). One row per closed tenant. step is the number of
-- the current step, in which position is the last id that was read. due_at is NULL if there
-- is nothing to do. ended and deleted count rows by their kind.
CREATE TABLE eventhook.tenant_cleanup (
    tenant_id          uuid PRIMARY KEY REFERENCES eventhook.tenant ON DELETE CASCADE,
    step               integer NOT NULL DEFAULT 0,
    position           uuid,
    due_at             timestamptz,
    lease_token        bigint NOT NULL DEFAULT 0,
    correlation_id     text NOT NULL DEFAULT '',
    ended              jsonb NOT NULL DEFAULT '{}',
    deleted            jsonb NOT NULL DEFAULT '{}',
    closed_at          timestamptz NOT NULL,
    close_completed_at timestamptz,
    purge_requested_at timestamptz,
    purge_completed_at timestamptz
) WITH (fillfactor = 70);
CREATE INDEX tenant_cleanup_due ON eventhook.tenant_cleanup (due_at) WHERE due_at IS NOT NULL;

-- A trigger, so that the row also exists if an instance of an older version closes the tenant.
CREATE FUNCTION eventhook.start_tenant_cleanup() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO eventhook.tenant_cleanup (tenant_id, due_at, closed_at) VALUES (NEW.id, NEW.updated_at, NEW.updated_at)
        ON CONFLICT DO NOTHING;
    RETURN NULL;
END $$;
CREATE TRIGGER tenant_closed AFTER UPDATE OF status ON eventhook.tenant
    FOR EACH ROW WHEN (OLD.status <> 'closed' AND NEW.status = 'closed') EXECUTE FUNCTION eventhook.start_tenant_cleanup();

INSERT INTO eventhook.tenant_cleanup (tenant_id, due_at, closed_at)
    SELECT id, updated_at, updated_at FROM eventhook.tenant WHERE status = 'closed';

-- The owner of operator subscriptions, which receive events of all tenants. Users cannot have
-- this slug.
INSERT INTO eventhook.tenant (id, slug, name) VALUES ('00000000-0000-7000-8000-000000000001', '_operator', 'Operator');
