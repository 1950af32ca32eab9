package pg

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/ingest"
	"github.com/eventhook/eventhook/internal/effects"
)

var _ ingest.Store = (*DB)(nil)

// acceptStatements are prepared on each connection of the accept pool.
var acceptStatements = slices.Concat(effectStatements, []*statement{acceptSQL, acceptSignedSQL, publishSQL, waitForKeysSQL})

// onKeyTaken keeps the id and the expiry of a key that is taken. If the key has expired, it
// replaces both by the new ones.
const onKeyTaken = `ON CONFLICT (tenant_id, scope, key) DO UPDATE
        SET made = CASE WHEN k.expires_at <= @now THEN excluded.made ELSE k.made END,
            expires_at = CASE WHEN k.expires_at <= @now THEN excluded.expires_at ELSE k.expires_at END`

// acceptedColumns describe an event of a batch. first_key is the key if the event is the
// first of the batch with that key and source, and NULL otherwise. generation, planned and
// actions are NULL for an event without a plan.
const acceptedColumns = `id uuid, tenant_id uuid, source_id uuid, due_at timestamptz, body_size int4, key text, first_key text,
              event_type text, content_type text, source_ip text, trace_id text, request_id text, origin text,
              generation int8, planned text, actions text`

// acceptSQL stores a batch in one statement, in one round trip: it claims the keys,
// stores the events, and stores the bodies. Only the first event of the batch with a
// key claims that key (first_key); further events find it in claimed, as any duplicate
// does. Keys are claimed in their order, so that batches of two instances wait for
// each other and do not deadlock. An expired key is claimed like a new one.
//
// An event with a generation has a plan. If the generation is the current one of its
// tenant's configuration, the event is stored with its planned status and its actions.
// Otherwise it is stored as an event without a plan. The whole statement sees the database
// as it was when the statement began.
//
// It returns the duplicates with their originals, and with NULL the events whose plan
// is stale.
var acceptSQL = newStatement("accept", `
WITH sent AS (
    SELECT * FROM @events(`+acceptedColumns+`)
), claimed AS (
    INSERT INTO eventhook.idempotency_key AS k (tenant_id, scope, key, made, expires_at)
    SELECT tenant_id, source_id::text, first_key, id, @expires::timestamptz
    FROM sent WHERE first_key IS NOT NULL
    ORDER BY tenant_id, first_key COLLATE "C", source_id::text COLLATE "C"
    `+onKeyTaken+`
    RETURNING tenant_id, scope, key, made
), checked AS (
    SELECT s.*, nullif(c.made, s.id) AS original
    FROM sent s LEFT JOIN claimed c ON c.key = s.key AND c.scope = s.source_id::text AND c.tenant_id = s.tenant_id
)`+storeChecked)

// storeChecked stores the events of checked, and their bodies. is_current says that an event
// was planned at the current generation of its tenant.
const storeChecked = `, planned AS MATERIALIZED (
    SELECT c.*, c.generation IS NOT NULL AND c.generation
        = coalesce((SELECT g.generation FROM eventhook.tenant_generation g WHERE g.tenant_id = c.tenant_id), 0) + ` + operatorGeneration + ` AS is_current
    FROM checked c
), stored AS (
    INSERT INTO eventhook.event (id, tenant_id, source_id, duplicate_of, due_at, lease_token, body_size, status,
        processed_at, actions, origin, event_type, content_type, idempotency_key, source_ip, trace_id, request_id)
    SELECT id, tenant_id, source_id, original,
           CASE WHEN original IS NOT NULL OR is_current THEN NULL ELSE coalesce(due_at, @now::timestamptz) END,
           CASE WHEN due_at IS NULL THEN 0 ELSE 1 END,
           body_size,
           CASE WHEN original IS NOT NULL THEN 'duplicate' WHEN is_current THEN planned WHEN due_at IS NULL THEN 'pending' ELSE 'processing' END,
           CASE WHEN original IS NULL AND is_current AND planned <> 'processing' THEN @now::timestamptz END,
           CASE WHEN original IS NULL AND is_current THEN actions::json END,
           origin, event_type, content_type, key, source_ip, trace_id, request_id
    FROM planned
), bodies AS (
    INSERT INTO eventhook.event_payload (event_id, headers, body)
    SELECT * FROM @events(id uuid, headers bytea, body bytea)
)
SELECT id, original FROM planned WHERE original IS NOT NULL OR generation IS NOT NULL AND NOT is_current`

// Parameters of acceptSQL and acceptSignedSQL.
var (
	acceptID          = acceptSQL.uuid("events.id")
	acceptTenant      = acceptSQL.uuid("events.tenant_id")
	acceptSource      = acceptSQL.uuid("events.source_id")
	acceptDueAt       = acceptSQL.time("events.due_at")
	acceptBodySize    = acceptSQL.int4("events.body_size")
	acceptKey         = acceptSQL.text("events.key")
	acceptFirstKey    = acceptSQL.text("events.first_key")
	acceptEventType   = acceptSQL.text("events.event_type")
	acceptContentType = acceptSQL.text("events.content_type")
	acceptSourceIP    = acceptSQL.text("events.source_ip")
	acceptTraceID     = acceptSQL.text("events.trace_id")
	acceptRequestID   = acceptSQL.text("events.request_id")
	acceptOrigin      = acceptSQL.text("events.origin")
	acceptGeneration  = acceptSQL.int8("events.generation")
	acceptPlanned     = acceptSQL.text("events.planned")
	acceptActions     = acceptSQL.text("events.actions")
	acceptHeaders     = acceptSQL.bytes("events.headers")
	acceptBody        = acceptSQL.bytes("events.body")
	acceptNow         = acceptSQL.moment("now")
	acceptExpires     = acceptSQL.moment("expires")
	acceptSigned      = acceptSignedSQL.text("events.signed")
)

// acceptColumns are the parameters of the statements of Accept.
type acceptColumns struct {
	events *columns
	effectColumns
}

func newAcceptColumns(instance eventhook.InstanceID) *acceptColumns {
	return &acceptColumns{newColumns(acceptSignedSQL), newEffectColumns(instance)}
}

// Accept stores the batch in one transaction: its keys, events and bodies, and the
// effects of events with a plan. When it returns nil, every event is on disk:
//
//   - An event is a duplicate if its source has an event with the same key or signed
//     hash, earlier in the batch or stored before, and the key or hash has not expired.
//     Then its Status is EventDuplicate, DuplicateOf is the first event, and it has no
//     effect.
//   - An event with a plan has the plan's Status and no lease, and its effects are
//     stored. If the tenant's configuration has changed since the event was planned, the
//     plan is marked IsStale instead, and the event is stored as an event without a plan.
//   - An event without a plan that has a lease is stored as leased (token 1,
//     EventProcessing). Without a lease it is stored as due now (EventPending).
//   - An event whose values the database refuses keeps an empty Status. If the database
//     refuses the effects of its plan, or another transaction holds the key of a target
//     for longer than maxKeyWait, IsPlanRefused is set, and the event is stored as an
//     event without a plan. Other events of the batch are not affected.
//
// If Accept returns an error, the batch may be stored nevertheless: the connection can
// break after the commit.
func (db *DB) Accept(ctx context.Context, batch []*effects.Arrival) error {
	conn, err := db.accept.Acquire(ctx)
	if err != nil {
		return fmt.Errorf("accept events: %w", asNotReady(err))
	}
	defer conn.Release()
	accept := func(part []*effects.Arrival) error {
		err := db.acceptOn(ctx, conn.Conn().PgConn(), part)
		if hasCode(err, codeLockTimeout) && refuseKeyedPlans(part) {
			db.log.Debug("another transaction holds a key of a target; the event will be planned again", "error", err)
			err = db.acceptOn(ctx, conn.Conn().PgConn(), part)
		}
		return err
	}
	err = accept(batch)
	if isDataError(err) {
		err = bisect(batch, func(part []*effects.Arrival) error {
			err := accept(part)
			if isDataError(err) && len(part) == 1 && part[0].PlanToStore() != nil {
				db.log.Warn("the database refused the effects of an event; the event will be planned again",
					"event", part[0].Event.ID, "trace_id", part[0].Event.Trace(), "error", err)
				part[0].IsPlanRefused = true
				err = accept(part)
			}
			return err
		}, func(a *effects.Arrival, err error) {
			db.log.Error("the database refused an event", "event", a.Event.ID, "trace_id", a.Event.Trace(), "error", err)
		})
	}
	if err != nil {
		return fmt.Errorf("accept events: %w", asNotReady(err))
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

func (db *DB) acceptOn(ctx context.Context, conn *pgconn.PgConn, batch []*effects.Arrival) error {
	c := db.acceptBufs.Get().(*acceptColumns) //nolint:forcetypeassert // the pool holds nothing else
	defer db.acceptBufs.Put(c)
	now := db.now()
	hasEffects := c.encodeEvents(batch, now)
	statement := acceptSQL
	if slices.ContainsFunc(batch, func(a *effects.Arrival) bool { return a.Event.SignedHash != "" }) {
		statement = acceptSignedSQL
		for _, a := range batch {
			c.events.optionalText(acceptSigned, a.Event.SignedHash)
		}
	}
	c.events.moment(acceptNow, now)
	c.events.moment(acceptExpires, db.keyExpiry(now))
	if !hasEffects {
		params, formats := c.events.values(statement)
		result := conn.ExecPrepared(ctx, statement.name, params, formats, binaryResults).Read()
		if result.Err == nil {
			concludeArrivals(batch, readOriginals(result.Rows), now)
		}
		return result.Err
	}
	p := newPipeline(ctx, conn)
	found := readOriginals(p.query(statement, c.events))
	if p.err == nil {
		p.storeEffects(&c.effectColumns, currentPlans(batch, found), now)
	}
	err := p.commit()
	if err == nil && c.ordered.isUsed() {
		err = flushOrder(ctx, conn)
	}
	if err == nil {
		c.ordered.conclude(p.rows)
		concludeArrivals(batch, found, now)
	}
	return err
}

// maxKeyWait limits how long a batch waits for keys of targets. SettleEvents holds its keys
// until its commit, which takes seconds for an event with 100 000 deliveries, and the
// events of all tenants wait for the batch.
const maxKeyWait = 25 * time.Millisecond

// waitForKeysSQL limits each wait for a lock until the end of the transaction.
var waitForKeysSQL = newStatement("wait_for_keys", fmt.Sprintf(`SELECT set_config('lock_timeout', '%d', true)`, maxKeyWait.Milliseconds()))

// refuseKeyedPlans sets IsPlanRefused for each plan that claims keys of targets, and reports
// whether the batch had such a plan.
func refuseKeyedPlans(batch []*effects.Arrival) (anyRefused bool) {
	for _, a := range batch {
		s := a.PlanToStore()
		if s != nil && slices.ContainsFunc(s.Actions, func(x effects.PlannedAction) bool { _, ok := keyOf(s, &x); return ok }) {
			a.IsPlanRefused, anyRefused = true, true
		}
	}
	return anyRefused
}

// storeEffects claims the keys of targets and stores the effects of plans. plans must not
// include stale plans and plans of duplicates.
func (p *pipeline) storeEffects(c *effectColumns, plans []*effects.Settlement, now time.Time) {
	if claimed := c.encodeKeys(plans, now); claimed != nil {
		p.send(waitForKeysSQL, nil)
		claimed.read(p.query(claimKeysSQL, c.keys))
		c.actions.reset()
		for _, s := range plans {
			if concludeActions(s, claimed, nil) {
				c.actions.uuid(setActionsTenant, s.Event.TenantID)
				c.actions.uuid(setActionsEvent, s.Event.ID)
				c.actions.appendText(setActionsJSON, func(b []byte) []byte { return appendActions(b, s, now) })
			}
		}
		statementSender(p.send).rows(setActionsSQL, c.actions)
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

// encodeEvents encodes a batch's events, and reports whether a plan has effects.
func (c *acceptColumns) encodeEvents(batch []*effects.Arrival, now time.Time) (hasEffects bool) {
	to := c.events
	to.reset()
	var seen map[scopedKey]bool
	if len(batch) > 1 {
		seen = make(map[scopedKey]bool, len(batch))
	}
	for _, a := range batch {
		e := a.Event
		to.uuid(acceptID, e.ID)
		to.uuid(acceptTenant, e.TenantID)
		to.uuid(acceptSource, e.SourceID)
		to.time(acceptDueAt, e.Lease.Until)
		to.int4(acceptBodySize, e.BodySize)
		to.optionalText(acceptKey, e.IdempotencyKey)
		scoped := scopedKey{e.SourceID, e.IdempotencyKey}
		if seen[scoped] {
			to.null(acceptFirstKey.column)
		} else {
			to.optionalText(acceptFirstKey, e.IdempotencyKey)
		}
		if seen != nil {
			seen[scoped] = true
		}
		to.text(acceptEventType, e.EventType)
		to.text(acceptContentType, e.ContentType)
		to.optionalText(acceptSourceIP, e.SourceIP)
		to.optionalText(acceptTraceID, e.TraceID)
		to.optionalText(acceptRequestID, e.RequestID)
		to.text(acceptOrigin, string(e.Origin))
		to.bytes(acceptHeaders, e.Headers)
		to.bytes(acceptBody, e.Body)
		hasEffects = c.encodePlan(a.PlanToStore(), now) || hasEffects
	}
	return hasEffects
}

// encodePlan encodes the status that an event gets by its plan if all keys of its effects
// are free, and reports whether there are effects.
func (c *acceptColumns) encodePlan(s *effects.Settlement, now time.Time) (hasEffects bool) {
	if s == nil {
		c.events.null(acceptGeneration.column)
		c.events.null(acceptPlanned.column)
		c.events.null(acceptActions.column)
		return false
	}
	s.IsStale = false
	concludeActions(s, nil, nil)
	s.Conclude(now)
	c.events.int8(acceptGeneration, s.Generation)
	c.events.text(acceptPlanned, string(s.Status))
	if len(s.Actions) == 0 {
		c.events.null(acceptActions.column)
		return false
	}
	c.events.appendText(acceptActions, func(b []byte) []byte { return appendActions(b, s, now) })
	return true
}

// keyExpiry returns when a key that is claimed now expires: after Options.KeyTTL, or in the
// year 9999 if that is 0. KeyTTL is the retention of events, so the original of a duplicate
// still exists.
func (db *DB) keyExpiry(now time.Time) time.Time {
	if db.keyTTL <= 0 {
		return time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)
	}
	return now.Add(db.keyTTL)
}

// originals has an entry for each duplicate of a batch, with the id of its original, and a
// zero id for each event whose plan is stale.
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

// currentPlans returns the plans that are not stale, of events that are not duplicates.
func currentPlans(batch []*effects.Arrival, o originals) (plans []*effects.Settlement) {
	for _, a := range batch {
		if _, isListed := o[a.Event.ID]; a.PlanToStore() != nil && !isListed {
			plans = append(plans, a.Plan)
		}
	}
	return plans
}

// concludeArrivals sets the status with which the events were stored. It is called after
// the commit, since a batch that failed is retried with unchanged events.
func concludeArrivals(batch []*effects.Arrival, o originals, now time.Time) {
	for _, a := range batch {
		e, s := a.Event, a.PlanToStore()
		original, isListed := o[e.ID]
		switch {
		case !original.IsZero():
			e.Status, e.DuplicateOf, e.Lease = eventhook.EventDuplicate, original, eventhook.Lease{}
		case s != nil && !isListed:
			e.Status, e.Lease = s.Status, eventhook.Lease{}
			if e.Status != eventhook.EventProcessing {
				e.ProcessedAt = &now
			}
		case e.Lease.Until.IsZero():
			e.Status = eventhook.EventPending
		default:
			e.Status, e.Lease.Token = eventhook.EventProcessing, 1
		}
		if s != nil {
			s.IsStale = isListed && original.IsZero()
		}
	}
}

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
        WHERE o.tenant_id = s.tenant_id AND o.key = s.key AND o.scope = s.source_id::text AND o.expires_at > @now), s.id), @expires::timestamptz
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
    SELECT tenant_id, source_id::text, key, id, @expires::timestamptz
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
