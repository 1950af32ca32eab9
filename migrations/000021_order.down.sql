-- Deliveries that wait for their turn become due, in no order.
DROP TRIGGER delivery_order ON eventhook.delivery;
DROP FUNCTION eventhook.order_deliveries();
DROP FUNCTION eventhook.order_slot(uuid);
DROP FUNCTION eventhook.lock_order(integer);
UPDATE eventhook.delivery SET due_at = now() WHERE due_at = 'infinity';
DROP INDEX eventhook.delivery_order;
ALTER TABLE eventhook.delivery DROP COLUMN order_key, DROP COLUMN order_seq;
DROP SEQUENCE eventhook.delivery_order_seq;
