DROP TABLE eventhook.event_type, eventhook.audit_log;
DROP INDEX eventhook.route_source, eventhook.source_tenant;
ALTER TABLE eventhook.route DROP COLUMN version, DROP COLUMN filter, DROP COLUMN filter_expression, DROP COLUMN filter_function, DROP COLUMN transform;
ALTER TABLE eventhook.source DROP COLUMN version;
ALTER TABLE eventhook.api_key DROP COLUMN last_used_at;
ALTER TABLE eventhook.tenant DROP COLUMN version, DROP COLUMN max_events_per_day, DROP COLUMN max_storage_bytes;
