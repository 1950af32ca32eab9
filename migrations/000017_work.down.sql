DROP INDEX eventhook.subscription_lifecycle;
DROP TABLE eventhook.lifecycle_change;
DROP INDEX eventhook.execution_priority;
ALTER TABLE eventhook.execution DROP COLUMN priority, DROP COLUMN trace_id;
