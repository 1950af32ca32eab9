package pg

import (
	"cmp"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/effects"
	"github.com/jackc/pgx/v5/pgconn"
)

// The effects of events are stored by the statements of this file, in the
// transaction that stores the events (Accept) or settles them (SettleEvents). Each
// statement takes parallel arrays and inserts rows whose ids were made before.

// claimKeysSQL claims keys in their order, so that two batches do not deadlock, and
// answers what each stands for: the row that is about to be inserted, or one that was
// inserted before. A key past its time is claimed anew. $6 is now. Primary key.
const claimKeysSQL = `
INSERT INTO eventhook.idempotency_key AS k (tenant_id, scope, key, made, expires_at)
SELECT * FROM unnest($1::uuid[], $2::text[], $3::text[], $4::uuid[], $5::timestamptz[]) AS u (tenant_id, scope, key, made, expires_at)
ORDER BY tenant_id, key COLLATE "C", scope COLLATE "C"
ON CONFLICT (tenant_id, scope, key) DO UPDATE
    SET made = CASE WHEN k.expires_at <= $6 THEN excluded.made ELSE k.made END,
        expires_at = CASE WHEN k.expires_at <= $6 THEN excluded.expires_at ELSE k.expires_at END
RETURNING tenant_id, scope, key, made`

const insertExecutionsSQL = `
INSERT INTO eventhook.execution (id, tenant_id, event_id, due_at, created_at, max_attempts, input_size, type, status, queue, kind, idempotency_key, input)
SELECT id, tenant_id, event_id, $4::timestamptz, $4::timestamptz, max_attempts, input_size, type, 'pending', queue, kind, key, convert_from(input, 'UTF8')::json
FROM unnest($1::uuid[], $2::uuid[], $3::uuid[], $5::int4[], $6::text[], $7::text[], $8::text[], $9::text[], $10::bytea[], $11::int4[])
    AS u (id, tenant_id, event_id, max_attempts, type, queue, kind, key, input, input_size)`

// insertPublishedSQL stores the events that routes publish. Nothing is owed for them
// as events: they are delivered as they are written. payload_of names the event whose
// payload is theirs too, and whose trace is theirs if they have no trace_id.
const insertPublishedSQL = `
INSERT INTO eventhook.event (id, tenant_id, status, origin, event_type, content_type, body_size, idempotency_key, trace_id, request_id, correlation_id,
    processed_at, payload_of, envelope)
SELECT id, tenant_id, 'delivered', 'route', event_type, 'application/json', body_size, key, trace_id, request_id, correlation_id,
    $9::timestamptz, payload_of, envelope::json
FROM unnest($1::uuid[], $2::uuid[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::int4[], $10::uuid[], $11::text[])
    AS u (id, tenant_id, event_type, key, trace_id, request_id, correlation_id, body_size, payload_of, envelope)`

// insertPayloadsSQL stores what transforms made: the bodies of published events, and
// under a delivery's id that of a request. A request that is made again has its body
// anew.
const insertPayloadsSQL = `
INSERT INTO eventhook.event_payload (event_id, headers, body)
SELECT id, 'Content-Type: application/json', body FROM unnest($1::uuid[], $2::bytea[]) AS u (id, body)
ON CONFLICT (event_id) DO UPDATE SET body = excluded.body`

// insertDeliveriesSQL stores deliveries: under their lease, or due now. One that
// exists is a request of a route whose event is processed again: if it is dead it
// begins anew, else it stays as it is.
const insertDeliveriesSQL = `
INSERT INTO eventhook.delivery AS d (id, tenant_id, destination_id, event_id, event_type, due_at, status, lease_token, route_id, target_index, has_body)
SELECT id, tenant_id, destination_id, event_id, event_type, coalesce(due_at, $7::timestamptz),
    CASE WHEN due_at IS NULL THEN 'pending' ELSE 'acquired' END, CASE WHEN due_at IS NULL THEN 0 ELSE 1 END, route_id, target_index, has_body
FROM unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::uuid[], $5::text[], $6::timestamptz[], $8::uuid[], $9::int2[], $10::bool[])
    AS u (id, tenant_id, destination_id, event_id, event_type, due_at, route_id, target_index, has_body)
ON CONFLICT (tenant_id, id) DO UPDATE
    SET status = 'pending', due_at = $7::timestamptz, lease_token = d.lease_token + 1, retry_count = 0, restarted_at = $7::timestamptz,
        completed_at = NULL, has_body = excluded.has_body
    WHERE d.status = 'dead' AND d.route_id IS NOT NULL`

// setActionsSQL writes the actions of events anew, of which a key turned out to be
// taken after the event was stored. Primary key.
const setActionsSQL = `
UPDATE eventhook.event e SET actions = u.actions::json
FROM unnest($1::uuid[], $2::uuid[], $3::text[]) AS u (tenant_id, id, actions) WHERE e.tenant_id = u.tenant_id AND e.id = u.id`

// effectStatements are prepared on each connection that stores effects.
var effectStatements = map[string]string{
	"claim_keys":        claimKeysSQL,
	"insert_executions": insertExecutionsSQL,
	"insert_published":  insertPublishedSQL,
	"insert_payloads":   insertPayloadsSQL,
	"insert_deliveries": insertDeliveriesSQL,
	"set_actions":       setActionsSQL,
}

// effectColumns are the parameters of the statements that store effects.
type effectColumns struct{ keys, executions, published, payloads, deliveries, actions *columns }

func newEffectColumns() effectColumns {
	return effectColumns{
		keys:       newColumns(uuidOID, textOID, textOID, uuidOID, timeOID, 0),
		executions: newColumns(uuidOID, uuidOID, uuidOID, 0, int4OID, textOID, textOID, textOID, textOID, byteaOID, int4OID),
		published:  newColumns(uuidOID, uuidOID, textOID, textOID, textOID, textOID, textOID, int4OID, 0, uuidOID, textOID),
		payloads:   newColumns(uuidOID, byteaOID),
		deliveries: newColumns(uuidOID, uuidOID, uuidOID, uuidOID, textOID, timeOID, 0, uuidOID, int2OID, boolOID),
		actions:    newColumns(uuidOID, uuidOID, textOID),
	}
}

// run sends a prepared statement with its parameters; its answer is read later.
type run func(statement string, params [][]byte, formats []int16)

// batchRun adds statements to a batch.
func batchRun(b *pgconn.Batch) run {
	return func(statement string, params [][]byte, formats []int16) {
		b.ExecPrepared(statement, params, formats, binaryResults)
	}
}

// send runs a statement if it has rows. Its parameter at nowParam is the one moment
// of the whole act, not an array; none if that is negative.
func (r run) send(statement string, c *columns, nowParam int, now time.Time) {
	if c.rows() == 0 {
		return
	}
	params := c.encoded()
	if nowParam >= 0 {
		params[nowParam] = scalarTime(now)
	}
	r(statement, params, c.formats)
}

// store stores the effects of settlements whose actions are concluded.
func (c *effectColumns) store(r run, batch []*effects.Settlement, now time.Time) {
	c.executions.reset()
	c.published.reset()
	c.payloads.reset()
	c.deliveries.reset()
	for _, s := range batch {
		for i := range s.Actions {
			c.add(s, &s.Actions[i])
		}
	}
	r.send("insert_executions", c.executions, 3, now)
	r.send("insert_published", c.published, 8, now)
	r.send("insert_payloads", c.payloads, -1, now)
	r.send("insert_deliveries", c.deliveries, 6, now)
}

// add adds the rows of one action's effect, if it has one.
func (c *effectColumns) add(s *effects.Settlement, a *effects.PlannedAction) {
	x := &a.Effect
	switch isDone := a.Status == eventhook.ActionSuccess; {
	case x.Execution != nil && isDone:
		c.addExecution(x.Execution, s.Event)
	case x.Publication != nil && isDone:
		c.addPublication(x.Publication, s.Event)
	case x.Request != nil && a.Status == eventhook.ActionPending:
		c.addRequest(x.Request, s.Event)
	}
}

func (c *effectColumns) addExecution(x *eventhook.Execution, of *eventhook.Event) {
	to := c.executions
	to.uuid(0, x.ID)
	to.uuid(1, x.TenantID)
	to.uuid(2, x.EventID)
	to.int4(4, x.MaxAttempts)
	to.text(5, string(x.Type))
	to.text(6, x.Queue)
	to.text(7, x.Kind)
	to.optional(8, x.IdempotencyKey)
	to.optionalBytes(9, x.Input)
	if x.Input != nil {
		to.int4(10, len(x.Input))
	} else {
		to.int4(10, of.BodySize)
	}
}

// addPublication adds a published event, which belongs together with the event that
// caused it: by its correlation id or, where it has none, by its own id.
func (c *effectColumns) addPublication(p *effects.Publication, of *eventhook.Event) {
	envelope, _ := envelopeJSON(p.Envelope) // a route's has two texts, which can be encoded
	to := c.published
	to.uuid(0, p.ID)
	to.uuid(1, of.TenantID)
	to.text(2, p.EventType)
	to.optional(3, p.IdempotencyKey)
	to.optional(5, of.RequestID)
	to.text(6, cmp.Or(of.CorrelationID, of.ID.String()))
	to.int4(7, len(p.Data))
	if sharesPayload(p, of) {
		to.optional(4, of.TraceID)
		to.uuid(9, of.ID)
	} else {
		to.text(4, of.Trace())
		to.null(9)
		c.payloads.uuid(0, p.ID)
		c.payloads.bytes(1, p.Data)
	}
	to.optional(10, envelope)
	for _, d := range p.Deliveries {
		d.TenantID, d.EventID, d.EventType = of.TenantID, p.ID, p.EventType
		c.addDelivery(d)
	}
}

// sharesPayload reports whether a published event refers to the payload of the event
// that it was made of: if the bytes are the same, and both are of one day, since a
// day's payloads are dropped together.
func sharesPayload(p *effects.Publication, of *eventhook.Event) bool {
	return string(p.Data) == string(of.Body) && p.ID.Time().Truncate(day).Equal(of.ID.Time().Truncate(day))
}

func (c *effectColumns) addRequest(r *effects.Request, of *eventhook.Event) {
	d := r.Delivery
	d.TenantID, d.EventID, d.EventType, d.Body = of.TenantID, of.ID, of.EventType, r.Body
	c.addDelivery(d)
	if d.Body != nil {
		c.payloads.uuid(0, d.ID)
		c.payloads.bytes(1, r.Body)
	}
}

func (c *effectColumns) addDelivery(d *eventhook.Delivery) {
	to := c.deliveries
	to.uuid(0, d.ID)
	to.uuid(1, d.TenantID)
	to.uuid(2, d.Destination().ID())
	to.uuid(3, d.EventID)
	to.text(4, d.EventType)
	to.time(5, d.Lease.Until)
	to.uuid(7, d.RouteID)
	if d.RouteID.IsZero() {
		to.null(8)
	} else {
		to.int2(8, d.TargetIndex)
	}
	to.bool(9, d.Body != nil)
	d.Status = eventhook.DeliveryPending
	if !d.Lease.Until.IsZero() {
		d.Status, d.Lease.Token = eventhook.DeliveryAcquired, 1
	}
}

// targetKey is a key in the scope of what it stands for.
type targetKey struct {
	tenant eventhook.TenantID
	scope  string
	key    string
}

// keyOf is the key of an action's effect, if it has one: unique among the effects of
// its kind, so that one event may have effects of several kinds under the same key,
// and two sources the same effect once.
func keyOf(s *effects.Settlement, a *effects.PlannedAction) (k targetKey, ok bool) {
	switch x, p := a.Effect.Execution, a.Effect.Publication; {
	case x != nil && x.IdempotencyKey != "":
		return targetKey{x.TenantID, string(x.Type) + "/" + x.Kind, x.IdempotencyKey}, true
	case p != nil && p.IdempotencyKey != "":
		return targetKey{s.Event.TenantID, "publish/" + p.EventType, p.IdempotencyKey}, true
	}
	return k, false
}

// idOf is the id of the execution or the event that an action makes.
func idOf(a *effects.PlannedAction) (id [16]byte) {
	switch {
	case a.Effect.Execution != nil:
		return a.Effect.Execution.ID
	case a.Effect.Publication != nil:
		return a.Effect.Publication.ID
	}
	return id
}

// madeByKey says what each key stands for.
type madeByKey map[targetKey][16]byte

// encodeKeys adds the keys of a batch's effects, each once, and returns what each
// stands for if it is free.
func (c *effectColumns) encodeKeys(batch []*effects.Settlement, now time.Time) madeByKey {
	var made madeByKey
	to := c.keys
	to.reset()
	for _, s := range batch {
		for i := range s.Actions {
			a := &s.Actions[i]
			k, ok := keyOf(s, a)
			if !ok || a.Failure != "" {
				continue
			}
			if _, twice := made[k]; twice {
				continue
			}
			if made == nil {
				made = madeByKey{}
			}
			made[k] = idOf(a)
			to.uuid(0, k.tenant)
			to.text(1, k.scope)
			to.text(2, k.key)
			to.uuid(3, made[k])
			to.time(4, now.Add(eventhook.TargetKeyTTL))
		}
	}
	return made
}

// read takes over what the database answered to claim_keys.
func (m madeByKey) read(rows [][][]byte) {
	for _, row := range rows {
		m[targetKey{eventhook.TenantID(row[0]), string(row[1]), string(row[2])}] = [16]byte(row[3])
	}
}

// concludeActions gives each action its state. made tells for which keys an effect
// exists already; nil: as if all were free. It reports whether an action is skipped.
func concludeActions(s *effects.Settlement, made madeByKey, settled promiseResults) (skips bool) {
	for i := range s.Actions {
		a := &s.Actions[i]
		a.Status, a.ErrorMessage = eventhook.ActionSuccess, ""
		if a.Failure != "" {
			a.Status, a.ErrorMessage = eventhook.ActionFailed, a.Failure
			continue
		}
		makes := idOf(a)
		if k, ok := keyOf(s, a); ok && made != nil && made[k] != makes {
			a.Status, makes, skips = eventhook.ActionSkipped, made[k], true
		}
		switch {
		case a.Effect.Execution != nil:
			a.ExecutionID = makes
		case a.Effect.Publication != nil:
			a.PublishedEventID = makes
		case a.Effect.Promise != nil:
			concludePromise(a, settled[a.Effect.Promise])
		case a.Effect.Request != nil:
			a.Status, a.IsRequest = eventhook.ActionPending, true
		}
	}
	return skips
}
