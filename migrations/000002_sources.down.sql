DROP INDEX eventhook.source_fastly;
DROP TABLE eventhook.learned_secret;
-- Rejected requests
DROP TABLE eventhook.rejection_count, eventhook.rejection;
