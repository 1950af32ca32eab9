package pg

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/eventhook/eventhook"
)

var acceptStatements = map[string]string{"accept": acceptSQL, "accept_signed": acceptSignedSQL, "publish": publishSQL}

// onKeyTaken keeps a key that is taken, unless its time is over. $17 is now.
const onKeyTaken = `ON CONFLICT (tenant_id, scope, key) DO UPDATE
        SET made = CASE WHEN k.expires_at <= $17 THEN excluded.made ELSE k.made END,
            expires_at = CASE WHEN k.expires_at <= $17 THEN excluded.expires_at ELSE k.expires_at END
    RETURNING tenant_id, scope, key, made`

// acceptSQL stores a batch in one statement, which is one transaction and one
// round trip: it claims the keys, stores the events, and stores the bodies.
// $7 is the key of the batch's first event with that key and NULL for the
// others, which find it in claimed like everybody else's duplicate. Keys are
// claimed in their order, so that batches of two instances wait for each
// other and do not deadlock. A key past its time is claimed anew. $17 is now.
// Answers the duplicates.
const acceptSQL = `
WITH sent AS (
    SELECT * FROM unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::timestamptz[], $5::int4[], $6::text[], $7::text[],
                         $8::text[], $9::text[], $10::text[], $11::text[], $12::text[], $13::text[], $14::timestamptz[])
        AS u (id, tenant_id, source_id, due_at, body_size, key, first_key,
              event_type, content_type, source_ip, trace_id, request_id, origin, key_expires_at)
), claimed AS (
    INSERT INTO eventhook.idempotency_key AS k (tenant_id, scope, key, made, expires_at)
    SELECT tenant_id, source_id::text, first_key, id, key_expires_at
    FROM sent WHERE first_key IS NOT NULL
    ORDER BY tenant_id, first_key COLLATE "C", source_id::text COLLATE "C"
    ` + onKeyTaken + `
), stored AS (
    INSERT INTO eventhook.event (id, tenant_id, source_id, duplicate_of, due_at, lease_token, body_size, status,
        origin, event_type, content_type, idempotency_key, source_ip, trace_id, request_id)
    SELECT s.id, s.tenant_id, s.source_id, nullif(c.made, s.id),
           CASE WHEN c.made <> s.id THEN NULL ELSE coalesce(s.due_at, $17::timestamptz) END,
           CASE WHEN s.due_at IS NULL THEN 0 ELSE 1 END,
           s.body_size,
           CASE WHEN c.made <> s.id THEN 'duplicate' WHEN s.due_at IS NULL THEN 'pending' ELSE 'processing' END,
           s.origin, s.event_type, s.content_type, s.key, s.source_ip, s.trace_id, s.request_id
    FROM sent s
    LEFT JOIN claimed c ON c.key = s.key AND c.scope = s.source_id::text AND c.tenant_id = s.tenant_id
    RETURNING id, duplicate_of
), bodies AS (
    INSERT INTO eventhook.event_payload (event_id, headers, body)
    SELECT * FROM unnest($1::uuid[], $15::bytea[], $16::bytea[])
)
SELECT id, duplicate_of FROM stored WHERE duplicate_of IS NOT NULL`

var acceptOIDs = []uint32{
	uuidOID, uuidOID, uuidOID, timeOID, int4OID, textOID, textOID,
	textOID, textOID, textOID, textOID, textOID, textOID, timeOID, byteaOID, byteaOID, 0, textOID,
}

const (
	acceptNow    = 16 // the parameter that is one moment, not an array
	acceptSigned = 17 // the parameter that only acceptSignedSQL has
)

// Accept stores the batch in one transaction: its keys, events and bodies.
// When it returns nil, every event is on disk, and those whose key or signed
// hash their source has seen within the key's time, in this batch too, are
// marked: Status EventDuplicate and DuplicateOf. An event with a lease is stored as leased
// (token 1, EventProcessing); one without is due now (EventPending). An event
// that the database refuses for what it holds keeps an empty Status and costs
// no other event anything. On an error the batch does not count as stored,
// though it may be: the connection can break after the commit.
func (db *DB) Accept(ctx context.Context, batch []*eventhook.Event) error {
	conn, err := db.accept.Acquire(ctx)
	if err != nil {
		return fmt.Errorf("accept events: %w", err)
	}
	defer conn.Release()
	accept := func(part []*eventhook.Event) error { return db.acceptOn(ctx, conn.Conn().PgConn(), part) }
	err = accept(batch)
	if isDataError(err) {
		err = inHalves(batch, accept, func(e *eventhook.Event, err error) {
			db.log.Error("the database refused an event", "event", e.ID, "error", err)
		})
	}
	if err != nil {
		return fmt.Errorf("accept events: %w", err)
	}
	db.tellAccepted(batch)
	return nil
}

// inHalves is the way out when the database refused a batch for what one of it
// holds: it goes again in halves, in order, down to the one that is to blame,
// which is told to refused. One that is alone goes once more, since a partition
// attached meanwhile refuses a row that was on its way to the default partition.
func inHalves[T any](batch []T, act func([]T) error, refused func(T, error)) error {
	if len(batch) <= 1 {
		err := act(batch)
		if isDataError(err) {
			refused(batch[0], err)
			return nil
		}
		return err
	}
	half := len(batch) / 2
	for _, part := range [][]T{batch[:half], batch[half:]} {
		err := act(part)
		if isDataError(err) {
			err = inHalves(part, act, refused)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (db *DB) acceptOn(ctx context.Context, conn *pgconn.PgConn, batch []*eventhook.Event) error {
	c := db.acceptBufs.Get().(*columns) //nolint:forcetypeassert // the pool holds nothing else
	c.reset()
	defer db.acceptBufs.Put(c)
	now := db.now()
	db.encodeAccept(c, batch, now)
	statement, count := "accept", acceptSigned
	if slices.ContainsFunc(batch, func(e *eventhook.Event) bool { return e.SignedHash != "" }) {
		statement, count = "accept_signed", acceptSigned+1
		for _, e := range batch {
			c.optional(acceptSigned, e.SignedHash)
		}
	}
	params := c.encoded()
	params[acceptNow] = scalarTime(now)
	result := conn.ExecPrepared(ctx, statement, params[:count], c.formats[:count], binaryResults).Read()
	if result.Err != nil {
		return result.Err
	}
	for _, e := range batch {
		e.Status = eventhook.EventPending
		if !e.Lease.Until.IsZero() {
			e.Status, e.Lease.Token = eventhook.EventProcessing, 1
		}
	}
	if len(result.Rows) > 0 {
		markDuplicates(batch, result.Rows)
	}
	return nil
}

var binaryResults = []int16{1}

type scopedKey struct {
	source eventhook.SourceID
	key    string
}

func (db *DB) encodeAccept(c *columns, batch []*eventhook.Event, now time.Time) {
	expires := db.keyExpiry(now)
	var seen map[scopedKey]bool
	if len(batch) > 1 {
		seen = make(map[scopedKey]bool, len(batch))
	}
	for _, e := range batch {
		c.uuid(0, e.ID)
		c.uuid(1, e.TenantID)
		c.uuid(2, e.SourceID)
		c.time(3, e.Lease.Until)
		c.int4(4, e.BodySize)
		c.optional(5, e.IdempotencyKey)
		scoped := scopedKey{e.SourceID, e.IdempotencyKey}
		if seen[scoped] {
			c.null(6)
		} else {
			c.optional(6, e.IdempotencyKey)
		}
		if seen != nil {
			seen[scoped] = true
		}
		c.text(7, e.EventType)
		c.text(8, e.ContentType)
		c.optional(9, e.SourceIP)
		c.optional(10, e.TraceID)
		c.optional(11, e.RequestID)
		c.text(12, string(e.Origin))
		c.time(13, expires)
		c.bytes(14, e.Headers)
		c.bytes(15, e.Body)
	}
}

// keyExpiry is when a key claimed now is forgotten: never, or after as long as
// events are kept, so that a duplicate's original is still there.
func (db *DB) keyExpiry(now time.Time) time.Time {
	if db.keyTTL <= 0 {
		return time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)
	}
	return now.Add(db.keyTTL)
}

func markDuplicates(batch []*eventhook.Event, rows [][][]byte) {
	originals := make(map[eventhook.EventID]eventhook.EventID, len(rows))
	for _, row := range rows {
		originals[eventhook.EventID(row[0])] = eventhook.EventID(row[1])
	}
	for _, e := range batch {
		if original, ok := originals[e.ID]; ok {
			e.Status, e.DuplicateOf, e.Lease = eventhook.EventDuplicate, original, eventhook.Lease{}
		}
	}
}

// isDataError reports whether the database refused the values (SQLSTATE
// classes 22 and 23, and 54: a limit exceeded), so that trying the same batch
// again is useless.
func isDataError(err error) bool {
	pgErr, ok := asPgError(err)
	if !ok || len(pgErr.Code) != 5 {
		return false
	}
	class := pgErr.Code[:2]
	return class == "22" || class == "23" || class == "54"
}
