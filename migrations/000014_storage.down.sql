ALTER TABLE eventhook.execution SET (fillfactor = 70);
DROP INDEX eventhook.event_source;
CREATE INDEX event_source ON eventhook.event (source_id, id) WHERE body_size >= 0;
