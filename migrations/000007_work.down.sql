DROP INDEX eventhook.execution_status, eventhook.execution_list, eventhook.execution_kind_due;
ALTER TABLE eventhook.execution DROP COLUMN lease_seconds;
