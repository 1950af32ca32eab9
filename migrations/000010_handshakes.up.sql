-- When a source began to wait for the secret that its provider's handshake
-- brings; NULL: when it was created. A secret that nobody has to confirm
-- (Asana's) is taken within an hour of it.
ALTER TABLE eventhook.source ADD COLUMN handshake_opened_at timestamptz;

-- A secret that a person must confirm (Notion's) counts once it was shown.
CREATE TRIGGER learned_secret_notify_revealed AFTER UPDATE OF revealed_at ON eventhook.learned_secret
    FOR EACH ROW EXECUTE FUNCTION eventhook.notify_config();
