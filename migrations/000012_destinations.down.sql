-- The previous version has no deliveries of routes. Their events become due again, and that
-- version sends all requests again, including those that were sent already. Receivers see
-- the same Idempotency-Key.
SET LOCAL lock_timeout = '10s';
LOCK TABLE eventhook.event IN SHARE ROW EXCLUSIVE MODE;
LOCK TABLE eventhook.delivery IN ACCESS EXCLUSIVE MODE;

UPDATE eventhook.event e SET due_at = now()
WHERE e.status = 'processing' AND e.due_at IS NULL;
DELETE FROM eventhook.event_payload p USING eventhook.delivery d WHERE d.has_body AND p.event_id = d.id;
DELETE FROM eventhook.delivery WHERE route_id IS NOT NULL;

ALTER TABLE eventhook.delivery_due RENAME COLUMN destination_id TO subscription_id;
ALTER TABLE eventhook.delivery_destination RENAME COLUMN destination_id TO subscription_id;
ALTER TABLE eventhook.delivery_destination_status RENAME COLUMN destination_id TO subscription_id;
DO $$
DECLARE
    old text;
BEGIN
    FOR old IN
        SELECT c.relname FROM pg_inherits i
        JOIN pg_index x ON x.indrelid = i.inhrelid
        JOIN pg_class c ON c.oid = x.indexrelid
        WHERE i.inhparent = 'eventhook.delivery'::regclass AND c.relname LIKE 'delivery\_%\_destination\_id\_%'
    LOOP
        EXECUTE format('ALTER INDEX eventhook.%I RENAME TO %I', old, replace(old, '_destination_id_', '_subscription_id_'));
    END LOOP;
END $$;
ALTER INDEX eventhook.delivery_destination_status RENAME TO delivery_subscription_status;
ALTER INDEX eventhook.delivery_destination RENAME TO delivery_subscription;
ALTER TABLE eventhook.delivery
    DROP COLUMN has_body,
    DROP COLUMN target_index,
    DROP COLUMN route_id;
ALTER TABLE eventhook.delivery RENAME COLUMN destination_id TO subscription_id;
