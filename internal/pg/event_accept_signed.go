package pg

// acceptSignedSQL stores a batch in which some events have a hash of the signed bytes of
// their request; acceptSQL stores batches without such hashes. An event is a duplicate if
// its hash or its key is taken. A hash is stored as a key in a separate scope. Hashes are
// claimed first, and a key only for an event whose hash was free: an attacker who replays
// a captured request with another id must not claim this id, with which the provider may
// send an event later. If the key of an event is taken, its hash stands for the event that
// claimed the key, or for the event itself if that key was claimed at the same time.
//
// The key is looked up in a subquery. A join could read the whole index by a plan that was
// cached while the table was small.
//
// Lock order: all hashes, then all keys, both sorted. held reads all rows of signed before
// claimed inserts the first key. acceptSQL locks keys only, in the same order.
var acceptSignedSQL = acceptSQL.extend("accept_signed", `
WITH sent AS (
    SELECT * FROM @events(`+acceptedColumns+`, signed text, n ordinality)
), signed AS (
    INSERT INTO eventhook.idempotency_key AS k (tenant_id, scope, key, made, expires_at)
    SELECT s.tenant_id, s.source_id::text || '`+signedScope+`', s.signed, coalesce((SELECT o.made FROM eventhook.idempotency_key o
        WHERE o.tenant_id = s.tenant_id AND o.key = s.key AND o.scope = s.source_id::text AND o.expires_at > @now), s.id), s.key_expires_at
    FROM (SELECT DISTINCT ON (tenant_id, source_id, signed COLLATE "C") * FROM sent WHERE signed IS NOT NULL
          ORDER BY tenant_id, source_id, signed COLLATE "C", n) s
    ORDER BY s.tenant_id, s.signed COLLATE "C", s.source_id::text COLLATE "C"
    `+onKeyTaken+`
    RETURNING tenant_id, scope, key, made
), held AS MATERIALIZED (
    SELECT s.*, c.made AS signed_by
    FROM sent s LEFT JOIN signed c ON c.key = s.signed AND c.scope = s.source_id::text || '`+signedScope+`' AND c.tenant_id = s.tenant_id
), claimed AS (
    INSERT INTO eventhook.idempotency_key AS k (tenant_id, scope, key, made, expires_at)
    SELECT tenant_id, source_id::text, key, id, key_expires_at
    FROM (SELECT DISTINCT ON (tenant_id, source_id, key COLLATE "C") * FROM held WHERE key IS NOT NULL AND coalesce(signed_by, id) = id
          ORDER BY tenant_id, source_id, key COLLATE "C", n) s
    ORDER BY tenant_id, key COLLATE "C", source_id::text COLLATE "C"
    `+onKeyTaken+`
    RETURNING tenant_id, scope, key, made
), checked AS (
    SELECT h.*, coalesce(nullif(h.signed_by, h.id), nullif(c.made, h.id)) AS original
    FROM held h LEFT JOIN claimed c ON c.key = h.key AND c.scope = h.source_id::text AND c.tenant_id = h.tenant_id
)`+storeChecked)

// signedScope is the suffix of the scope of hashes, which begins with the source's id.
const signedScope = "/signed"
