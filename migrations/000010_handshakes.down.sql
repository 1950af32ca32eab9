DROP TRIGGER learned_secret_notify_revealed ON eventhook.learned_secret;
ALTER TABLE eventhook.source DROP COLUMN handshake_opened_at;
