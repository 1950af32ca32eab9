SET LOCAL lock_timeout = '10s';
DROP INDEX eventhook.audit_log_trace, eventhook.audit_log_request, eventhook.audit_log_correlation;
ALTER TABLE eventhook.audit_log DROP COLUMN trace_id;
ALTER TABLE eventhook.event DROP COLUMN reprocessed_from, DROP COLUMN rerouted_at;
