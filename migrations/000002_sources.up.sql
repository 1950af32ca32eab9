-- Sources: what their people are shown beside events.

-- Rejected requests ----------------------------------------------------------
-- The last requests that a source refused: a few for each, written together
-- once a second and not one by one, since anybody can send what is refused.
-- The moment is the id's. No part of a body, no header's value, no secret.

CREATE TABLE eventhook.rejection (
    id             uuid PRIMARY KEY,
    source_id      uuid NOT NULL REFERENCES eventhook.source ON DELETE CASCADE,
    outcome        text NOT NULL,
    reason         text NOT NULL,
    detail         text NOT NULL,
    method         text NOT NULL,
    client_address text,
    header_names   json NOT NULL,
    body_size      bigint, -- NULL: neither read nor announced
    body_sha256    bytea   -- NULL: not read to its end
);
CREATE INDEX rejection_source ON eventhook.rejection (source_id, id);

-- How many there were, those included that were not kept. The reasons are the
-- gateway's own words and few.
CREATE TABLE eventhook.rejection_count (
    source_id uuid NOT NULL REFERENCES eventhook.source ON DELETE CASCADE,
    reason    text COLLATE "C" NOT NULL,
    count     bigint NOT NULL,
    first_at  timestamptz NOT NULL,
    last_at   timestamptz NOT NULL,
    PRIMARY KEY (source_id, reason)
) WITH (fillfactor = 70);

-- The secret that a provider's handshake has brought (Asana, Notion), sealed:
-- apart from the source, so that applying its configuration leaves it alone.
-- revealed_at is when a person was shown it, which happens once.
CREATE TABLE eventhook.learned_secret (
    source_id   uuid PRIMARY KEY REFERENCES eventhook.source ON DELETE CASCADE,
    tenant_id   uuid NOT NULL,
    secret      text NOT NULL,
    learned_at  timestamptz NOT NULL,
    revealed_at timestamptz
);
CREATE TRIGGER learned_secret_notify AFTER INSERT OR DELETE ON eventhook.learned_secret
    FOR EACH ROW EXECUTE FUNCTION eventhook.notify_config();

-- Whose services may send logs is asked for all sources of Fastly at once.
CREATE INDEX source_fastly ON eventhook.source (id) WHERE provider = 'fastly';
