-- The time from which a source waits for the secret of its provider's handshake; NULL:
-- since it was created. A secret that needs no confirmation (Asana) is accepted for an
-- hour.
ALTER TABLE eventhook.source ADD COLUMN handshake_opened_at timestamptz;

-- A secret that a user must confirm (Notion) is active once it was shown.
CREATE TRIGGER learned_secret_notify_revealed AFTER UPDATE OF revealed_at ON eventhook.learned_secret
    FOR EACH ROW EXECUTE FUNCTION eventhook.notify_config();
