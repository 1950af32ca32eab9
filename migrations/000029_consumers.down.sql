DROP TABLE eventhook.consumer_instance;
DROP TABLE eventhook.source_consumer;
ALTER TABLE eventhook.source DROP COLUMN consume_secrets, DROP COLUMN consume;
