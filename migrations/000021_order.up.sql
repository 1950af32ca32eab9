-- Order per key: deliveries of a subscription with the same order_key are sent one after
-- another (ADR 29).

-- Instances of the previous version may be running. They wait until the index is built; it
-- is empty, so this takes one read of the deliveries. No table is rewritten.
SET LOCAL lock_timeout = '10s';
LOCK TABLE eventhook.delivery IN ACCESS EXCLUSIVE MODE;

-- order_key is a hash of the value that orders the delivery; NULL: the delivery is not
-- ordered. order_seq is the place of the delivery among these of its key.
CREATE SEQUENCE eventhook.delivery_order_seq;
ALTER TABLE eventhook.delivery ADD COLUMN order_key uuid, ADD COLUMN order_seq bigint;

-- The open deliveries of a key. At most one of them has a finite due_at: the delivery that
-- is sent next or that is being sent. It comes first in the index. Each other one waits with
-- due_at = 'infinity', in the order of order_seq.
CREATE INDEX delivery_order ON eventhook.delivery (destination_id, order_key, due_at, order_seq)
    WHERE order_key IS NOT NULL AND due_at IS NOT NULL;

-- Transactions that insert, end or reopen deliveries of a key hold the lock of the key until
-- they end. Keys share 256 locks, so a transaction holds few locks, whatever its keys. A
-- transaction that needs several takes them in ascending order. With a lock, it waits for no
-- row of a leased delivery, as these are settled before the lock is taken.
CREATE FUNCTION eventhook.lock_order(slot integer) RETURNS void LANGUAGE sql VOLATILE AS $$
    SELECT pg_advisory_xact_lock(1702258796, slot)
$$;
CREATE FUNCTION eventhook.order_slot(order_key uuid) RETURNS integer LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS $$
    SELECT get_byte(uuid_send(order_key), 15)
$$;

-- order_deliveries is a trigger, so that no statement can end a delivery without making the
-- next one of its key due, whichever version of the gateway runs it. The settlement of
-- deliveries makes the next ones due by a single statement, and turns the trigger off for its
-- transaction by the setting eventhook.orders, as the trigger takes longer. A delivery that is
-- opened again precedes the deliveries that wait, and the next one too unless that is
-- leased. The next one is due at once for instances whose clocks are behind this one's.
CREATE FUNCTION eventhook.order_deliveries() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM eventhook.lock_order(eventhook.order_slot(NEW.order_key));
    IF NEW.due_at IS NOT NULL THEN
        PERFORM FROM eventhook.delivery d -- waits for a claim that is about to commit
        WHERE d.destination_id = NEW.destination_id AND d.order_key = NEW.order_key AND d.due_at < 'infinity' AND d.status <> 'acquired' FOR UPDATE;
        UPDATE eventhook.delivery d SET due_at = 'infinity'
        WHERE d.destination_id = NEW.destination_id AND d.order_key = NEW.order_key AND d.due_at < 'infinity' AND d.status <> 'acquired'
          AND EXISTS (SELECT FROM eventhook.delivery o
              WHERE o.destination_id = NEW.destination_id AND o.order_key = NEW.order_key AND o.due_at < 'infinity'
                AND (o.status = 'acquired' OR (o.order_seq, o.id) < (d.order_seq, d.id)));
        RETURN NULL;
    END IF;
    UPDATE eventhook.delivery d SET due_at = least(NEW.completed_at, now())
    FROM (SELECT o.tenant_id, o.id, o.due_at FROM eventhook.delivery o
          WHERE o.destination_id = NEW.destination_id AND o.order_key = NEW.order_key AND o.due_at IS NOT NULL
          ORDER BY o.due_at, o.order_seq LIMIT 1) f
    WHERE d.tenant_id = f.tenant_id AND d.id = f.id AND f.due_at = 'infinity';
    RETURN NULL;
END $$;
CREATE TRIGGER delivery_order AFTER UPDATE ON eventhook.delivery FOR EACH ROW
    WHEN (NEW.order_key IS NOT NULL AND current_setting('eventhook.orders', true) IS DISTINCT FROM 'off'
        AND ((OLD.due_at IS NULL) <> (NEW.due_at IS NULL) OR OLD.due_at = 'infinity' AND NEW.due_at < 'infinity' AND pg_trigger_depth() = 0))
    EXECUTE FUNCTION eventhook.order_deliveries();
