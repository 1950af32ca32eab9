DROP TABLE eventhook.source_usage, eventhook.tenant_usage;
