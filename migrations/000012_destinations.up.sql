-- A delivery goes to a destination: a subscription or a target of a route. An
-- id of a destination is the subscription's, or is derived from the route and the
-- index of its target.

-- Instances of the former version may be running. Their statements about
-- deliveries fail from here on, so that none of them sends a route's delivery to a
-- subscription; they go on accepting, and their leases run out.
SET LOCAL lock_timeout = '10s';
LOCK TABLE eventhook.delivery IN ACCESS EXCLUSIVE MODE;

-- route_id and target_index are set for a route's target, and NULL for a
-- subscription. If has_body is true, the request's body is the event_payload row
-- whose event_id is the delivery's id; otherwise it is composed of the event.
ALTER TABLE eventhook.delivery
    ADD COLUMN route_id     uuid,
    ADD COLUMN target_index smallint,
    ADD COLUMN has_body     boolean NOT NULL DEFAULT false;

ALTER TABLE eventhook.delivery RENAME COLUMN subscription_id TO destination_id;
ALTER INDEX eventhook.delivery_subscription RENAME TO delivery_destination;
ALTER INDEX eventhook.delivery_subscription_status RENAME TO delivery_destination_status;

-- Indexes keep the former name of the column, also in the names of their parts and
-- of those of new partitions.
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
