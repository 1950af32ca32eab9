DROP TABLE eventhook.schema_release;
