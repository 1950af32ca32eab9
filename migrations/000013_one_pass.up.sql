-- One pass: an event is stored together with its effects (ADR 20).

-- Instances of the previous version may be running. This migration locks the tables that
-- they write, at its start and in the order in which accepting events locks them. The
-- instances wait until it is done.
SET LOCAL lock_timeout = '10s';
LOCK TABLE eventhook.event IN ACCESS EXCLUSIVE MODE;

-- actions has an object for each action; internal/pg/event_actions.go defines its members.
-- payload_of names the event of the same day whose payload this event shares; NULL: the
-- event has its own. envelope is set for events that a route published; other events have
-- it in event_payload.
ALTER TABLE eventhook.event ADD COLUMN actions json, ADD COLUMN payload_of uuid, ADD COLUMN envelope json;

-- Actions that earlier versions wrote stay in event_action.

-- A tenant's generation grows with every change of its sources, routes, subscriptions and
-- status. An instance that stores the effects of an event passes the generation by which
-- it planned the event. If that is not the current one, the event is planned again.
ALTER TABLE eventhook.subscription_generation RENAME TO tenant_generation;
ALTER INDEX eventhook.subscription_generation_pkey RENAME TO tenant_generation_pkey;

-- Other transactions see all changes of one transaction at once, so these count once.
CREATE FUNCTION eventhook.next_generation(of uuid) RETURNS void LANGUAGE sql AS $$
    INSERT INTO eventhook.tenant_generation AS g (tenant_id, generation, changed_by)
        SELECT t.id, 1, pg_current_xact_id() FROM eventhook.tenant t WHERE t.id = of
        ON CONFLICT (tenant_id) DO UPDATE SET generation = g.generation + 1, changed_by = EXCLUDED.changed_by
            WHERE g.changed_by <> EXCLUDED.changed_by
$$;

CREATE OR REPLACE FUNCTION eventhook.notify_subscription() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM eventhook.next_generation(coalesce(NEW.tenant_id, OLD.tenant_id));
    PERFORM pg_notify('eventhook_config', 'subscription ' || coalesce(NEW.id, OLD.id) || ' ' || coalesce(NEW.tenant_id, OLD.tenant_id));
    RETURN NULL;
END $$;

CREATE FUNCTION eventhook.count_generation() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM eventhook.next_generation((to_jsonb(coalesce(NEW, OLD))->>TG_ARGV[0])::uuid);
    RETURN NULL;
END $$;
CREATE TRIGGER tenant_generation AFTER UPDATE OF status ON eventhook.tenant
    FOR EACH ROW WHEN (OLD.status <> NEW.status) EXECUTE FUNCTION eventhook.count_generation('id');
CREATE TRIGGER source_generation AFTER INSERT OR DELETE ON eventhook.source
    FOR EACH ROW EXECUTE FUNCTION eventhook.count_generation('tenant_id');
CREATE TRIGGER route_generation AFTER INSERT OR DELETE ON eventhook.route
    FOR EACH ROW EXECUTE FUNCTION eventhook.count_generation('tenant_id');
-- Resealing does not change a secret.
CREATE TRIGGER source_generation_change AFTER UPDATE ON eventhook.source
    FOR EACH ROW WHEN (OLD.verifier = NEW.verifier OR OLD.version <> NEW.version) EXECUTE FUNCTION eventhook.count_generation('tenant_id');
CREATE TRIGGER route_generation_change AFTER UPDATE ON eventhook.route
    FOR EACH ROW WHEN (OLD.target_secrets IS NOT DISTINCT FROM NEW.target_secrets OR OLD.version <> NEW.version)
    EXECUTE FUNCTION eventhook.count_generation('tenant_id');
