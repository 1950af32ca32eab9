ALTER TABLE eventhook.replay DROP COLUMN released_at, DROP COLUMN counted_at;
DROP INDEX eventhook.delivery_released;
