-- Sources: data for their operators in addition to events.

-- Rejected requests ----------------------------------------------------------
-- The last requests that a source rejected, a few for each source. They are written
-- together once a second instead of one by one, since anyone can send such requests. The
-- id has the time. There is no part of a body, no value of a header and no secret.

CREATE TABLE eventhook.rejection (
    id             uuid PRIMARY KEY,
    source_id      uuid NOT NULL REFERENCES eventhook.source ON DELETE CASCADE,
    outcome        text NOT NULL,
    reason         text NOT NULL,
    detail         text NOT NULL,
    method         text NOT NULL,
    client_address text,
    header_names   json NOT NULL,
    body_size      bigint, -- NULL: the body was not read and its length not announced
    body_sha256    bytea   -- NULL: the body was not read to its end
);
CREATE INDEX rejection_source ON eventhook.rejection (source_id, id);

-- The number of rejected requests, including those that were not stored. reason is one of
-- a few words of the gateway.
CREATE TABLE eventhook.rejection_count (
    source_id uuid NOT NULL REFERENCES eventhook.source ON DELETE CASCADE,
    reason    text COLLATE "C" NOT NULL,
    count     bigint NOT NULL,
    first_at  timestamptz NOT NULL,
    last_at   timestamptz NOT NULL,
    PRIMARY KEY (source_id, reason)
) WITH (fillfactor = 70);

-- The sealed secret of a provider's handshake (Asana, Notion). It is stored apart from the
-- source, so that applying the source's configuration does not change it. revealed_at is
-- the time when it was shown to a user, which happens once.
CREATE TABLE eventhook.learned_secret (
    source_id   uuid PRIMARY KEY REFERENCES eventhook.source ON DELETE CASCADE,
    tenant_id   uuid NOT NULL,
    secret      text NOT NULL,
    learned_at  timestamptz NOT NULL,
    revealed_at timestamptz
);
CREATE TRIGGER learned_secret_notify AFTER INSERT OR DELETE ON eventhook.learned_secret
    FOR EACH ROW EXECUTE FUNCTION eventhook.notify_config();

-- Fastly asks once, for all of its sources, which services may send logs.
CREATE INDEX source_fastly ON eventhook.source (id) WHERE provider = 'fastly';
