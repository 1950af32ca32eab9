DROP TRIGGER route_generation ON eventhook.route;
DROP TRIGGER source_generation ON eventhook.source;
DROP TRIGGER tenant_generation ON eventhook.tenant;
DROP FUNCTION eventhook.count_generation();
ALTER INDEX eventhook.tenant_generation_pkey RENAME TO subscription_generation_pkey;
ALTER TABLE eventhook.tenant_generation RENAME TO subscription_generation;
CREATE OR REPLACE FUNCTION eventhook.notify_subscription() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO eventhook.subscription_generation AS g (tenant_id, generation, changed_by)
        SELECT t.id, 1, pg_current_xact_id() FROM eventhook.tenant t WHERE t.id = coalesce(NEW.tenant_id, OLD.tenant_id)
        ON CONFLICT (tenant_id) DO UPDATE SET generation = g.generation + 1, changed_by = EXCLUDED.changed_by
            WHERE g.changed_by <> EXCLUDED.changed_by;
    PERFORM pg_notify('eventhook_config', 'subscription ' || coalesce(NEW.id, OLD.id) || ' ' || coalesce(NEW.tenant_id, OLD.tenant_id));
    RETURN NULL;
END $$;
DROP FUNCTION eventhook.next_generation(uuid);
ALTER TABLE eventhook.event DROP COLUMN envelope, DROP COLUMN payload_of, DROP COLUMN actions;
