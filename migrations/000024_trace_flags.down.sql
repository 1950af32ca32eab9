SET LOCAL lock_timeout = '10s';
ALTER TABLE eventhook.execution DROP COLUMN trace_flags;
