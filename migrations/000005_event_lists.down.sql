ALTER TABLE eventhook.idempotency_key
    DROP CONSTRAINT idempotency_key_pkey,
    ADD PRIMARY KEY (tenant_id, scope, key);
DROP INDEX eventhook.event_duplicate, eventhook.event_source_status, eventhook.event_status,
    eventhook.event_type_list, eventhook.event_source;
