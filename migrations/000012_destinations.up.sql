-- A delivery has a destination: a subscription or a target of a route. The id of a
-- destination is that of the subscription, or is derived from the route and the index of
-- its target.

-- Instances of the previous version may be running. From now on their statements on
-- deliveries fail, so that they cannot send a route's delivery to a subscription. They
-- continue to accept events, and their leases run out.
SET LOCAL lock_timeout = '10s';
LOCK TABLE eventhook.delivery IN ACCESS EXCLUSIVE MODE;

-- route_id and target_index are set for a route's target, and NULL for a
-- subscription. If has_body is true, the request's body is the event_payload row
-- whose event_id is the delivery's id; otherwise it is composed from the event.
ALTER TABLE eventhook.delivery
    ADD COLUMN route_id     uuid,
    ADD COLUMN target_index smallint,
    ADD COLUMN has_body     boolean NOT NULL DEFAULT false;

ALTER TABLE eventhook.delivery RENAME COLUMN subscription_id TO destination_id;
ALTER INDEX eventhook.delivery_subscription RENAME TO delivery_destination;
ALTER INDEX eventhook.delivery_subscription_status RENAME TO delivery_destination_status;

-- Indexes keep the previous name of the column, also in the names of their partitions,
-- including new ones.
ALTER TABLE eventhook.delivery_due RENAME COLUMN subscription_id TO destination_id;
ALTER TABLE eventhook.delivery_destination RENAME COLUMN subscription_id TO destination_id;
ALTER TABLE eventhook.delivery_destination_status RENAME COLUMN subscription_id TO destination_id;
DO $$
DECLARE
    old text;
BEGIN
    FOR old IN
        SELECT c.relname FROM pg_inherits i
        JOIN pg_index x ON x.indrelid = i.inhrelid
        JOIN pg_class c ON c.oid = x.indexrelid
        WHERE i.inhparent = 'eventhook.delivery'::regclass AND c.relname LIKE 'delivery\_%\_subscription\_id\_%'
    LOOP
        EXECUTE format('ALTER INDEX eventhook.%I RENAME TO %I', old, replace(old, '_subscription_id_', '_destination_id_'));
    END LOOP;
END $$;
