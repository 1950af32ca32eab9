-- Replays in the background.

-- Instances of the previous version may be running. They wait until the index is built,
-- about a second per million deliveries. The single lock on the table and all of its
-- partitions cannot cause a deadlock with them. Only released deliveries are in the index.
SET LOCAL lock_timeout = '10s';
LOCK TABLE eventhook.delivery IN ACCESS EXCLUSIVE MODE;
CREATE INDEX delivery_released ON eventhook.delivery (released_by, status) WHERE released_by IS NOT NULL;

-- released_at is when the replay last queued deliveries, counted_at when sent and failed were
-- last counted.
ALTER TABLE eventhook.replay
    ADD COLUMN released_at timestamptz,
    ADD COLUMN counted_at  timestamptz;
