-- The previous version reads actions from event_action, and bodies and envelopes by the
-- id of their event.
SET LOCAL lock_timeout = '10s';
LOCK TABLE eventhook.event IN ACCESS EXCLUSIVE MODE;

INSERT INTO eventhook.event_payload (event_id, headers, body, envelope)
SELECT e.id, 'Content-Type: application/json', p.body, e.envelope
FROM eventhook.event e JOIN eventhook.event_payload p ON p.event_id = e.payload_of
ON CONFLICT (event_id) DO NOTHING;
UPDATE eventhook.event_payload p SET envelope = e.envelope
FROM eventhook.event e WHERE e.id = p.event_id AND e.envelope IS NOT NULL AND e.payload_of IS NULL;

-- A request with an open delivery becomes a pending action: the previous version sends it.
CREATE FUNCTION pg_temp.id_of(text) RETURNS uuid LANGUAGE sql IMMUTABLE AS $$
    SELECT encode(decode(translate($1, '-_', '+/') || '==', 'base64'), 'hex')::uuid
$$;
INSERT INTO eventhook.event_action (event_id, route_id, target_index, id, route_name, target_type, status, attempts,
    execution_id, promise_id, published_event_id, error_message, started_at, completed_at)
SELECT event_id, route_id, target_index, gen_random_uuid(), route_name, target_type, status,
    CASE status WHEN 'pending' THEN 0 ELSE greatest(attempts, 1) END,
    CASE WHEN target_type IN ('task', 'workflow') THEN made END, CASE target_type WHEN 'promise' THEN made END,
    CASE target_type WHEN 'publish' THEN made END,
    CASE status WHEN 'failed' THEN coalesce(error, 'failed') END, ended, CASE WHEN status <> 'pending' THEN ended END
FROM (
    SELECT e.id AS event_id, pg_temp.id_of(e.r) AS route_id, e.target_index, e.route_name, a->>'t' AS target_type, pg_temp.id_of(a->>'m') AS made,
        CASE WHEN a->>'s' IS DISTINCT FROM 'request' THEN coalesce(a->>'s', 'success')
            WHEN d.status = 'success' OR d.id IS NULL AND e.status = 'delivered' THEN 'success'
            WHEN d.status = 'dead' OR d.id IS NULL THEN 'failed' ELSE 'pending' END AS status,
        coalesce(d.attempts, (a->>'a')::int, 1) AS attempts, coalesce(d.last_error, a->>'e') AS error,
        coalesce(d.completed_at, to_timestamp((a->>'c')::bigint / 1e6), e.processed_at, now()) AS ended
    FROM (
        -- An action without a route has the route of the last action before it that has one.
        SELECT n.*, coalesce((n.a->>'i')::int, 0) AS target_index,
            first_value(n.a->>'r') OVER same_route AS r, first_value(n.a->>'n') OVER same_route AS route_name
        FROM (
            SELECT e.tenant_id, e.id, e.status, e.processed_at, t.a, t.place, count(t.a->>'r') OVER (PARTITION BY e.tenant_id, e.id ORDER BY t.place) AS routes
            FROM eventhook.event e CROSS JOIN json_array_elements(e.actions) WITH ORDINALITY AS t (a, place)
        ) n
        WINDOW same_route AS (PARTITION BY n.tenant_id, n.id, n.routes ORDER BY n.place)
    ) e
    LEFT JOIN eventhook.delivery d ON d.tenant_id = e.tenant_id AND d.event_id = e.id
        AND d.route_id = pg_temp.id_of(e.r) AND d.target_index = e.target_index
) x
ON CONFLICT (event_id, route_id, target_index) DO UPDATE
    SET status = excluded.status, attempts = excluded.attempts, execution_id = excluded.execution_id, promise_id = excluded.promise_id,
        published_event_id = excluded.published_event_id, error_message = excluded.error_message, completed_at = excluded.completed_at;

DROP TRIGGER route_generation_change ON eventhook.route;
DROP TRIGGER route_generation ON eventhook.route;
DROP TRIGGER source_generation_change ON eventhook.source;
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
