package pg

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/ingest"
	"github.com/eventhook/eventhook/internal/effects"
)

var _ ingest.Store = (*DB)(nil)

var acceptStatements = func() map[string]string {
	all := map[string]string{"accept": acceptSQL, "accept_signed": acceptSignedSQL, "publish": publishSQL, "wait_for_keys": waitForKeysSQL}
	maps.Copy(all, effectStatements)
	return all
}()

// onKeyTaken keeps a key that is taken, unless its time is over. $17 is now.
const onKeyTaken = `ON CONFLICT (tenant_id, scope, key) DO UPDATE
        SET made = CASE WHEN k.expires_at <= $17 THEN excluded.made ELSE k.made END,
            expires_at = CASE WHEN k.expires_at <= $17 THEN excluded.expires_at ELSE k.expires_at END
    RETURNING tenant_id, scope, key, made`

// acceptSQL stores a batch in one statement, in one round trip: it claims the keys,
// stores the events, and stores the bodies. $7 is the key of the batch's first event
// with that key and NULL for the others, which find it in claimed as any duplicate
// does. Keys are claimed in their order, so that batches of two instances wait for
// each other and do not deadlock. A key past its time is claimed anew. $17 is now.
//
// An event with a generation ($18) was planned. If that is the generation of its
// tenant's configuration, the event is stored in its planned state ($19) with its
// actions ($20), and else as an event that is not planned yet. All of the statement
// sees the database as it was when it began.
//
// Answers the duplicates with their originals, and with NULL the events whose plan is
// stale.
const acceptSQL = `
WITH sent AS (
    SELECT * FROM unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::timestamptz[], $5::int4[], $6::text[], $7::text[],
                         $8::text[], $9::text[], $10::text[], $11::text[], $12::text[], $13::text[], $14::timestamptz[],
                         $18::int8[], $19::text[], $20::text[])
        AS u (id, tenant_id, source_id, due_at, body_size, key, first_key,
              event_type, content_type, source_ip, trace_id, request_id, origin, key_expires_at, generation, planned, actions)
), claimed AS (
    INSERT INTO eventhook.idempotency_key AS k (tenant_id, scope, key, made, expires_at)
    SELECT tenant_id, source_id::text, first_key, id, key_expires_at
    FROM sent WHERE first_key IS NOT NULL
    ORDER BY tenant_id, first_key COLLATE "C", source_id::text COLLATE "C"
    ` + onKeyTaken + `
), checked AS (
    SELECT s.*, nullif(c.made, s.id) AS original
    FROM sent s LEFT JOIN claimed c ON c.key = s.key AND c.scope = s.source_id::text AND c.tenant_id = s.tenant_id
)` + storeChecked

// storeChecked stores the events of checked, and their bodies. An event is current if
// it was planned by the generation that its tenant has.
const storeChecked = `, planned AS MATERIALIZED (
    SELECT c.*, c.generation IS NOT NULL AND c.generation
        = coalesce((SELECT g.generation FROM eventhook.tenant_generation g WHERE g.tenant_id = c.tenant_id), 0) AS is_current
    FROM checked c
), stored AS (
    INSERT INTO eventhook.event (id, tenant_id, source_id, duplicate_of, due_at, lease_token, body_size, status,
        processed_at, actions, origin, event_type, content_type, idempotency_key, source_ip, trace_id, request_id)
    SELECT id, tenant_id, source_id, original,
           CASE WHEN original IS NOT NULL OR is_current THEN NULL ELSE coalesce(due_at, $17::timestamptz) END,
           CASE WHEN due_at IS NULL THEN 0 ELSE 1 END,
           body_size,
           CASE WHEN original IS NOT NULL THEN 'duplicate' WHEN is_current THEN planned WHEN due_at IS NULL THEN 'pending' ELSE 'processing' END,
           CASE WHEN original IS NULL AND is_current AND planned <> 'processing' THEN $17::timestamptz END,
           CASE WHEN original IS NULL AND is_current THEN actions::json END,
           origin, event_type, content_type, key, source_ip, trace_id, request_id
    FROM planned
), bodies AS (
    INSERT INTO eventhook.event_payload (event_id, headers, body)
    SELECT * FROM unnest($1::uuid[], $15::bytea[], $16::bytea[])
)
SELECT id, original FROM planned WHERE original IS NOT NULL OR generation IS NOT NULL AND NOT is_current`

var acceptOIDs = []uint32{
	uuidOID, uuidOID, uuidOID, timeOID, int4OID, textOID, textOID,
	textOID, textOID, textOID, textOID, textOID, textOID, timeOID, byteaOID, byteaOID, 0, int8OID, textOID, textOID, textOID,
}

const (
	acceptNow    = 16 // the parameter that is one moment, not an array
	acceptSigned = 20 // the parameter that only acceptSignedSQL has
)

// acceptColumns are the parameters of the statements of Accept.
type acceptColumns struct {
	events *columns
	effectColumns
}

func newAcceptColumns() *acceptColumns {
	return &acceptColumns{newColumns(acceptOIDs...), newEffectColumns()}
}

// Accept stores the batch in one transaction: its keys, events and bodies, and the
// effects of events with a plan. When it returns nil, every event is on disk:
//
//   - an event whose key or signed hash its source has seen within the key's time, in
//     this batch too, has the Status EventDuplicate and DuplicateOf, and no effect;
//   - an event with a plan has the plan's Status and no lease: its effects are stored.
//     If the tenant's configuration has changed since it was planned, the plan is
//     IsStale instead, and the event is stored as one without a plan;
//   - an event without a plan is stored as leased if it has a lease (token 1,
//     EventProcessing), else as due now (EventPending);
//   - an event that the database refuses for what it holds keeps an empty Status. If
//     the database refuses the effects of its plan, or another transaction holds the
//     key of a target for longer than mostKeyWait, the Plan is set to nil, and the
//     event is stored as one without a plan. Neither costs another event anything.
//
// On an error the batch does not count as stored, though it may be: the connection
// can break after the commit.
func (db *DB) Accept(ctx context.Context, batch []*effects.Arrival) error {
	conn, err := db.accept.Acquire(ctx)
	if err != nil {
		return fmt.Errorf("accept events: %w", err)
	}
	defer conn.Release()
	accept := func(part []*effects.Arrival) error {
		err := db.acceptOn(ctx, conn.Conn().PgConn(), part)
		if hasCode(err, codeLockTimeout) && withoutKeys(part) {
			db.log.Debug("another transaction holds a key of a target; its event is planned again", "error", err)
			err = db.acceptOn(ctx, conn.Conn().PgConn(), part)
		}
		return err
	}
	err = accept(batch)
	if isDataError(err) {
		err = inHalves(batch, func(part []*effects.Arrival) error {
			err := accept(part)
			if isDataError(err) && len(part) == 1 && part[0].Plan != nil {
				db.log.Warn("the database refused the effects of an event; it is planned again", "event", part[0].Event.ID, "error", err)
				part[0].Plan = nil
				err = accept(part)
			}
			return err
		}, func(a *effects.Arrival, err error) {
			db.log.Error("the database refused an event", "event", a.Event.ID, "error", err)
		})
	}
	if err != nil {
		return fmt.Errorf("accept events: %w", err)
	}
	db.notifyAccepted(batch)
	var plans []*effects.Settlement
	for _, a := range batch {
		if a.IsPlanned() {
			plans = append(plans, a.Plan)
		}
	}
	db.wakeWorkers(plans, nil)
	return nil
}

// inHalves handles a batch that the database refused for what one item holds: it
// tries the halves in order, down to the item that is to blame, which is passed to
// refused. A single item is tried once more, since a partition that was attached
// meanwhile refuses a row that was on its way to the default partition.
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

func (db *DB) acceptOn(ctx context.Context, conn *pgconn.PgConn, batch []*effects.Arrival) error {
	c := db.acceptBufs.Get().(*acceptColumns) //nolint:forcetypeassert // the pool holds nothing else
	defer db.acceptBufs.Put(c)
	now := db.now()
	makes := c.encodeEvents(batch, now, db.keyExpiry(now))
	statement, count := "accept", acceptSigned
	if slices.ContainsFunc(batch, func(a *effects.Arrival) bool { return a.Event.SignedHash != "" }) {
		statement, count = "accept_signed", acceptSigned+1
		for _, a := range batch {
			c.events.optional(acceptSigned, a.Event.SignedHash)
		}
	}
	params := c.events.encoded()
	params[acceptNow] = scalarTime(now)
	if !makes {
		result := conn.ExecPrepared(ctx, statement, params[:count], c.events.formats[:count], binaryResults).Read()
		if result.Err == nil {
			concludeArrivals(batch, readOriginals(result.Rows), now)
		}
		return result.Err
	}
	p := newPipeline(ctx, conn)
	found := readOriginals(p.ask(statement, params[:count], c.events.formats[:count]))
	if p.err == nil {
		p.storeEffects(&c.effectColumns, plansThatHold(batch, found), now)
	}
	err := p.commit()
	if err == nil {
		concludeArrivals(batch, found, now)
	}
	return err
}

// mostKeyWait is how long a batch waits for keys of targets. A settle holds its keys for
// as long as it takes, which is seconds for an event of 100 000 deliveries, and the events
// of all tenants wait for the batch.
const mostKeyWait = 25 * time.Millisecond

// waitForKeysSQL bounds all waits for locks until the end of the transaction.
var waitForKeysSQL = fmt.Sprintf(`SELECT set_config('lock_timeout', '%d', true)`, mostKeyWait.Milliseconds())

// withoutKeys sets the plans of a batch to nil that claim keys of targets, and reports
// whether there are any.
func withoutKeys(batch []*effects.Arrival) (dropped bool) {
	for _, a := range batch {
		if a.Plan != nil && slices.ContainsFunc(a.Plan.Actions, func(x effects.PlannedAction) bool { _, ok := keyOf(a.Plan, &x); return ok }) {
			a.Plan, dropped = nil, true
		}
	}
	return dropped
}

// storeEffects stores the effects of the plans that hold. Only these claim the keys
// of their targets: a duplicate must not.
func (p *pipeline) storeEffects(c *effectColumns, plans []*effects.Settlement, now time.Time) {
	if made := c.encodeKeys(plans, now); made != nil {
		params := c.keys.encoded()
		params[5] = scalarTime(now)
		p.send("wait_for_keys", nil, nil)
		made.read(p.ask("claim_keys", params, c.keys.formats))
		c.actions.reset()
		for _, s := range plans {
			if concludeActions(s, made, nil) {
				c.actions.uuid(0, s.Event.TenantID)
				c.actions.uuid(1, s.Event.ID)
				c.actions.bytes(2, appendActions(nil, s, now))
			}
		}
		run(p.send).send("set_actions", c.actions, -1, now)
	}
	if p.err == nil {
		c.store(p.send, plans, now)
	}
}

var binaryResults = []int16{1}

type scopedKey struct {
	source eventhook.SourceID
	key    string
}

// encodeEvents adds a batch's events, and reports whether a plan has effects.
func (c *acceptColumns) encodeEvents(batch []*effects.Arrival, now, expires time.Time) (makes bool) {
	to := c.events
	to.reset()
	var seen map[scopedKey]bool
	if len(batch) > 1 {
		seen = make(map[scopedKey]bool, len(batch))
	}
	for _, a := range batch {
		e := a.Event
		to.uuid(0, e.ID)
		to.uuid(1, e.TenantID)
		to.uuid(2, e.SourceID)
		to.time(3, e.Lease.Until)
		to.int4(4, e.BodySize)
		to.optional(5, e.IdempotencyKey)
		scoped := scopedKey{e.SourceID, e.IdempotencyKey}
		if seen[scoped] {
			to.null(6)
		} else {
			to.optional(6, e.IdempotencyKey)
		}
		if seen != nil {
			seen[scoped] = true
		}
		to.text(7, e.EventType)
		to.text(8, e.ContentType)
		to.optional(9, e.SourceIP)
		to.optional(10, e.TraceID)
		to.optional(11, e.RequestID)
		to.text(12, string(e.Origin))
		to.time(13, expires)
		to.bytes(14, e.Headers)
		to.bytes(15, e.Body)
		makes = c.encodePlan(a.Plan, now) || makes
	}
	return makes
}

// encodePlan adds the state of an event that its plan leads to, as if all keys of its
// effects were free, and reports whether there are effects.
func (c *acceptColumns) encodePlan(s *effects.Settlement, now time.Time) (makes bool) {
	const generation, planned, actions = 17, 18, 19
	if s == nil {
		c.events.null(generation)
		c.events.null(planned)
		c.events.null(actions)
		return false
	}
	s.IsStale = false
	concludeActions(s, nil, nil)
	s.Conclude(now)
	c.events.int8(generation, s.Generation)
	c.events.text(planned, string(s.Status))
	if len(s.Actions) == 0 {
		c.events.null(actions)
		return false
	}
	c.events.append(actions, func(b []byte) []byte { return appendActions(b, s, now) })
	return true
}

// keyExpiry is when a key claimed now is forgotten: never, or after as long as
// events are kept, so that a duplicate's original is still there.
func (db *DB) keyExpiry(now time.Time) time.Time {
	if db.keyTTL <= 0 {
		return time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)
	}
	return now.Add(db.keyTTL)
}

// originals has an entry for each event of a batch that is a duplicate, with its
// original, and a zero one for each event whose plan is stale.
type originals map[eventhook.EventID]eventhook.EventID

// readOriginals reads the result of acceptSQL.
func readOriginals(rows [][][]byte) originals {
	if len(rows) == 0 {
		return nil
	}
	o := make(originals, len(rows))
	for _, row := range rows {
		var original eventhook.EventID
		copy(original[:], row[1])
		o[eventhook.EventID(row[0])] = original
	}
	return o
}

// plansThatHold returns the plans of events that are no duplicates, but for stale ones.
func plansThatHold(batch []*effects.Arrival, o originals) (plans []*effects.Settlement) {
	for _, a := range batch {
		if _, isAnswered := o[a.Event.ID]; a.Plan != nil && !isAnswered {
			plans = append(plans, a.Plan)
		}
	}
	return plans
}

// concludeArrivals sets the state in which the events were stored, after the commit: an
// event of a batch that failed must be as it was, since it is tried again.
func concludeArrivals(batch []*effects.Arrival, o originals, now time.Time) {
	for _, a := range batch {
		e := a.Event
		original, isAnswered := o[e.ID]
		switch {
		case !original.IsZero():
			e.Status, e.DuplicateOf, e.Lease = eventhook.EventDuplicate, original, eventhook.Lease{}
		case a.Plan != nil && !isAnswered:
			e.Status, e.Lease = a.Plan.Status, eventhook.Lease{}
			if e.Status != eventhook.EventProcessing {
				e.ProcessedAt = &now
			}
		case e.Lease.Until.IsZero():
			e.Status = eventhook.EventPending
		default:
			e.Status, e.Lease.Token = eventhook.EventProcessing, 1
		}
		if a.Plan != nil {
			a.Plan.IsStale = isAnswered && original.IsZero()
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
