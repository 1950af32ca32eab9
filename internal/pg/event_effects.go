package pg

import (
	"cmp"
	"slices"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/effects"
	"github.com/jackc/pgx/v5/pgconn"
)

// The statements of this file store the effects of events in the transaction that stores
// the events (Accept) or settles them (SettleEvents). The rows that they insert have ids
// that were generated before.

// claimKeysSQL claims keys in their order, so that two batches do not deadlock. It
// returns the id that each key stands for: that of the row to be inserted, or of a row
// that was inserted before. An expired key is claimed like a new one. Primary key.
var claimKeysSQL = newStatement("claim_keys", `
INSERT INTO eventhook.idempotency_key AS k (tenant_id, scope, key, made, expires_at)
SELECT * FROM @keys(tenant_id uuid, scope text, key text, made uuid, expires_at timestamptz)
ORDER BY tenant_id, key COLLATE "C", scope COLLATE "C"
`+onKeyTaken+`
RETURNING tenant_id, scope, key, made`)

var (
	claimKeyTenant    = claimKeysSQL.uuid("keys.tenant_id")
	claimKeyScope     = claimKeysSQL.text("keys.scope")
	claimKeyKey       = claimKeysSQL.text("keys.key")
	claimKeyID        = claimKeysSQL.uuid("keys.made")
	claimKeyExpiresAt = claimKeysSQL.time("keys.expires_at")
	claimKeyNow       = claimKeysSQL.moment("now")
)

var insertExecutionsSQL = newStatement("insert_executions", `
INSERT INTO eventhook.execution (id, tenant_id, event_id, due_at, created_at, max_attempts, input_size, priority, type, status, queue, kind,
    idempotency_key, trace_id, trace_flags, input)
SELECT id, tenant_id, event_id, @now::timestamptz + `+behindByPriority+`, @now::timestamptz, max_attempts, input_size, priority, type, 'pending', queue, kind,
    key, trace_id, trace_flags, convert_from(input, 'UTF8')::json
FROM @executions(id uuid, tenant_id uuid, event_id uuid, max_attempts int4, priority int2, type text, queue text, kind text, key text, trace_id text,
                 trace_flags text, input bytea, input_size int4)`)

var (
	insertExecutionID          = insertExecutionsSQL.uuid("executions.id")
	insertExecutionTenant      = insertExecutionsSQL.uuid("executions.tenant_id")
	insertExecutionEvent       = insertExecutionsSQL.uuid("executions.event_id")
	insertExecutionMaxAttempts = insertExecutionsSQL.int4("executions.max_attempts")
	insertExecutionType        = insertExecutionsSQL.text("executions.type")
	insertExecutionQueue       = insertExecutionsSQL.text("executions.queue")
	insertExecutionKind        = insertExecutionsSQL.text("executions.kind")
	insertExecutionKey         = insertExecutionsSQL.text("executions.key")
	insertExecutionPriority    = insertExecutionsSQL.int2("executions.priority")
	insertExecutionTraceID     = insertExecutionsSQL.text("executions.trace_id")
	insertExecutionTraceFlags  = insertExecutionsSQL.text("executions.trace_flags")
	insertExecutionInput       = insertExecutionsSQL.bytes("executions.input")
	insertExecutionInputSize   = insertExecutionsSQL.int4("executions.input_size")
	insertExecutionNow         = insertExecutionsSQL.moment("now")
)

// insertPublishedSQL stores the events that routes publish. These are delivered from
// the start: the processor has nothing to do for them. payload_of names the event whose
// payload such an event shares, and whose trace it shares if it has no trace_id.
var insertPublishedSQL = newStatement("insert_published", `
INSERT INTO eventhook.event (id, tenant_id, status, origin, event_type, content_type, body_size, idempotency_key, trace_id, request_id, correlation_id,
    processed_at, payload_of, envelope)
SELECT id, tenant_id, 'delivered', 'route', event_type, 'application/json', body_size, key, trace_id, request_id, correlation_id,
    @now::timestamptz, payload_of, envelope::json
FROM @events(id uuid, tenant_id uuid, event_type text, key text, trace_id text, request_id text, correlation_id text, body_size int4,
             payload_of uuid, envelope text)`)

var (
	insertPublishedID            = insertPublishedSQL.uuid("events.id")
	insertPublishedTenant        = insertPublishedSQL.uuid("events.tenant_id")
	insertPublishedEventType     = insertPublishedSQL.text("events.event_type")
	insertPublishedKey           = insertPublishedSQL.text("events.key")
	insertPublishedTraceID       = insertPublishedSQL.text("events.trace_id")
	insertPublishedRequestID     = insertPublishedSQL.text("events.request_id")
	insertPublishedCorrelationID = insertPublishedSQL.text("events.correlation_id")
	insertPublishedBodySize      = insertPublishedSQL.int4("events.body_size")
	insertPublishedPayloadOf     = insertPublishedSQL.uuid("events.payload_of")
	insertPublishedEnvelope      = insertPublishedSQL.text("events.envelope")
	insertPublishedNow           = insertPublishedSQL.moment("now")
)

// insertPayloadsSQL stores the output of transforms. The id of a published event's body is
// that of the event, and the id of a request's body that of the delivery. If a request is
// reprocessed, the new body replaces the stored one.
var insertPayloadsSQL = newStatement("insert_payloads", `
INSERT INTO eventhook.event_payload (event_id, headers, body)
SELECT id, 'Content-Type: application/json', body FROM @payloads(id uuid, body bytea)
ON CONFLICT (event_id) DO UPDATE SET body = excluded.body`)

var (
	insertPayloadID   = insertPayloadsSQL.uuid("payloads.id")
	insertPayloadBody = insertPayloadsSQL.bytes("payloads.body")
)

// insertDeliveriesSQL stores deliveries: leased if they have a due_at, and due now
// otherwise. If a delivery exists, it is a request of an event that is reprocessed. Then a
// dead delivery is replayed, and any other delivery does not change.
var insertDeliveriesSQL = newStatement("insert_deliveries", `
INSERT INTO eventhook.delivery AS d (id, tenant_id, destination_id, event_id, event_type, due_at, status, lease_token, acquired_by, route_id, target_index, has_body)
SELECT id, tenant_id, destination_id, event_id, event_type, coalesce(due_at, @now::timestamptz),
    CASE WHEN due_at IS NULL THEN 'pending' ELSE 'acquired' END, CASE WHEN due_at IS NULL THEN 0 ELSE 1 END,
    CASE WHEN due_at IS NOT NULL THEN @instance::uuid END, route_id, target_index, has_body
FROM @deliveries(id uuid, tenant_id uuid, destination_id uuid, event_id uuid, event_type text, due_at timestamptz,
                 route_id uuid, target_index int2, has_body bool)
ON CONFLICT (tenant_id, id) DO UPDATE
    SET status = 'pending', due_at = @now::timestamptz, lease_token = d.lease_token + 1, retry_count = 0, restarted_at = @now::timestamptz,
        completed_at = NULL, has_body = excluded.has_body
    WHERE d.status = 'dead' AND d.route_id IS NOT NULL`)

var (
	insertDeliveryID          = insertDeliveriesSQL.uuid("deliveries.id")
	insertDeliveryTenant      = insertDeliveriesSQL.uuid("deliveries.tenant_id")
	insertDeliveryDestination = insertDeliveriesSQL.uuid("deliveries.destination_id")
	insertDeliveryEvent       = insertDeliveriesSQL.uuid("deliveries.event_id")
	insertDeliveryEventType   = insertDeliveriesSQL.text("deliveries.event_type")
	insertDeliveryDueAt       = insertDeliveriesSQL.time("deliveries.due_at")
	insertDeliveryRoute       = insertDeliveriesSQL.uuid("deliveries.route_id")
	insertDeliveryTargetIndex = insertDeliveriesSQL.int2("deliveries.target_index")
	insertDeliveryHasBody     = insertDeliveriesSQL.bool("deliveries.has_body")
	insertDeliveryNow         = insertDeliveriesSQL.moment("now")
	insertDeliveryInstance    = insertDeliveriesSQL.id("instance")
)

// setActionsSQL replaces the actions of events that were stored before claimKeysSQL found
// that a key is taken. Primary key.
var setActionsSQL = newStatement("set_actions", `
UPDATE eventhook.event e SET actions = events.actions::json
FROM @events(tenant_id uuid, id uuid, actions text) WHERE e.tenant_id = events.tenant_id AND e.id = events.id`)

var (
	setActionsTenant = setActionsSQL.uuid("events.tenant_id")
	setActionsEvent  = setActionsSQL.uuid("events.id")
	setActionsJSON   = setActionsSQL.text("events.actions")
)

// effectStatements are prepared on each connection that stores effects.
var effectStatements = slices.Concat(orderStatements,
	[]*statement{claimKeysSQL, insertExecutionsSQL, insertPublishedSQL, insertPayloadsSQL, insertDeliveriesSQL, setActionsSQL})

// effectColumns are the parameters of the statements that store effects.
type effectColumns struct {
	keys, executions, published, payloads, deliveries, actions *columns
	ordered                                                    orderedColumns
}

func newEffectColumns(instance eventhook.InstanceID) effectColumns {
	return effectColumns{
		keys:       newColumns(claimKeysSQL),
		executions: newColumns(insertExecutionsSQL),
		published:  newColumns(insertPublishedSQL),
		payloads:   newColumns(insertPayloadsSQL),
		deliveries: newColumns(insertDeliveriesSQL),
		actions:    newColumns(setActionsSQL),
		ordered:    newOrderedColumns(instance),
	}
}

// statementSender sends a prepared statement with its parameters. Its result is read later.
type statementSender func(*statement, *columns)

// batchSender returns a statementSender that adds statements to a batch. A statement without
// parameters has nil columns.
func batchSender(b *pgconn.Batch) statementSender {
	return func(s *statement, c *columns) {
		var params [][]byte
		var formats []int16
		if c != nil {
			params, formats = c.values(s)
		}
		b.ExecPrepared(s.name, params, formats, binaryResults)
	}
}

// rows sends a statement if its columns have rows.
func (send statementSender) rows(s *statement, c *columns) {
	if !c.isEmpty() {
		send(s, c)
	}
}

// store stores the effects of settlements. Their actions must be concluded.
func (c *effectColumns) store(send statementSender, batch []*effects.Settlement, now time.Time) {
	c.executions.reset()
	c.published.reset()
	c.payloads.reset()
	c.deliveries.reset()
	c.ordered.reset()
	for _, s := range batch {
		for i := range s.Actions {
			c.add(s, &s.Actions[i])
		}
	}
	c.executions.moment(insertExecutionNow, now)
	c.published.moment(insertPublishedNow, now)
	c.deliveries.moment(insertDeliveryNow, now)
	c.deliveries.id(insertDeliveryInstance, c.ordered.instance)
	send.rows(insertExecutionsSQL, c.executions)
	send.rows(insertPublishedSQL, c.published)
	send.rows(insertPayloadsSQL, c.payloads)
	send.rows(insertDeliveriesSQL, c.deliveries)
	c.ordered.storeDeferred(send, now)
}

// add encodes the rows of an action's effect, if it has one.
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
	to.uuid(insertExecutionID, x.ID)
	to.uuid(insertExecutionTenant, x.TenantID)
	to.uuid(insertExecutionEvent, x.EventID)
	to.int4(insertExecutionMaxAttempts, x.MaxAttempts)
	to.text(insertExecutionType, string(x.Type))
	to.text(insertExecutionQueue, x.Queue)
	to.text(insertExecutionKind, x.Kind)
	to.int2(insertExecutionPriority, x.Priority)
	to.optionalText(insertExecutionKey, x.IdempotencyKey)
	to.optionalText(insertExecutionTraceID, x.TraceID)
	to.optionalText(insertExecutionTraceFlags, storedFlags(x))
	to.optionalBytes(insertExecutionInput, x.Input)
	if x.Input != nil {
		to.int4(insertExecutionInputSize, len(x.Input))
	} else {
		to.int4(insertExecutionInputSize, of.BodySize)
	}
}

// addPublication encodes a published event. Its correlation id is that of the event that
// caused it or, if that is empty, the id of that event.
func (c *effectColumns) addPublication(p *effects.Publication, of *eventhook.Event) {
	envelope, _ := envelopeJSON(p.Envelope) // the envelope of a route has two texts, which can always be encoded
	to := c.published
	to.uuid(insertPublishedID, p.ID)
	to.uuid(insertPublishedTenant, of.TenantID)
	to.text(insertPublishedEventType, p.EventType)
	to.optionalText(insertPublishedKey, p.IdempotencyKey)
	to.optionalText(insertPublishedRequestID, of.RequestID)
	to.text(insertPublishedCorrelationID, cmp.Or(of.CorrelationID, of.ID.String()))
	to.int4(insertPublishedBodySize, len(p.Data))
	if sharesPayload(p, of) {
		to.optionalText(insertPublishedTraceID, of.TraceID)
		to.uuid(insertPublishedPayloadOf, of.ID)
	} else {
		to.text(insertPublishedTraceID, of.Trace())
		to.null(insertPublishedPayloadOf.column)
		c.payloads.uuid(insertPayloadID, p.ID)
		c.payloads.bytes(insertPayloadBody, p.Data)
	}
	to.optionalText(insertPublishedEnvelope, envelope)
	for _, d := range p.Deliveries {
		d.TenantID, d.EventID, d.EventType = of.TenantID, p.ID, p.EventType
		c.addDelivery(d)
	}
}

// sharesPayload reports whether a published event refers to the payload of the event that
// caused it, instead of storing a copy. The bytes must be equal, and both events of the same
// day, because payloads are dropped by day.
func sharesPayload(p *effects.Publication, of *eventhook.Event) bool {
	return string(p.Data) == string(of.Body) && p.ID.Time().Truncate(day).Equal(of.ID.Time().Truncate(day))
}

func (c *effectColumns) addRequest(r *effects.Request, of *eventhook.Event) {
	d := r.Delivery
	d.TenantID, d.EventID, d.EventType, d.Body = of.TenantID, of.ID, of.EventType, r.Body
	c.addDelivery(d)
	if d.Body != nil {
		c.payloads.uuid(insertPayloadID, d.ID)
		c.payloads.bytes(insertPayloadBody, r.Body)
	}
}

func (c *effectColumns) addDelivery(d *eventhook.Delivery) {
	if isOrdered(d) {
		c.ordered.add(d.TenantID, d.EventID, d.EventType, d)
		return
	}
	to := c.deliveries
	to.uuid(insertDeliveryID, d.ID)
	to.uuid(insertDeliveryTenant, d.TenantID)
	to.uuid(insertDeliveryDestination, d.Destination().ID())
	to.uuid(insertDeliveryEvent, d.EventID)
	to.text(insertDeliveryEventType, d.EventType)
	to.time(insertDeliveryDueAt, d.Lease.Until)
	to.uuid(insertDeliveryRoute, d.RouteID)
	if d.RouteID.IsZero() {
		to.null(insertDeliveryTargetIndex.column)
	} else {
		to.int2(insertDeliveryTargetIndex, d.TargetIndex)
	}
	to.bool(insertDeliveryHasBody, d.Body != nil)
	d.Status = eventhook.DeliveryPending
	if !d.Lease.Until.IsZero() {
		d.Status, d.Lease.Token = eventhook.DeliveryAcquired, 1
	}
}

// targetKey is an idempotency key of a target, in the scope of its kind of effect.
type targetKey struct {
	tenant eventhook.TenantID
	scope  string
	key    string
}

// keyOf returns the key of an action's effect, if it has one. A key is unique among a
// tenant's effects of one kind. Effects of different kinds may have the same key. The
// source does not count: two sources with the same key have one effect.
func keyOf(s *effects.Settlement, a *effects.PlannedAction) (k targetKey, ok bool) {
	switch x, p := a.Effect.Execution, a.Effect.Publication; {
	case x != nil && x.IdempotencyKey != "":
		return targetKey{x.TenantID, keyScope(x), x.IdempotencyKey}, true
	case p != nil && p.IdempotencyKey != "":
		return targetKey{s.Event.TenantID, "publish/" + p.EventType, p.IdempotencyKey}, true
	}
	return k, false
}

// keyScope returns the scope of an execution's idempotency key.
func keyScope(x *eventhook.Execution) string { return string(x.Type) + "/" + x.Kind }

// plannedID returns the id of the execution or the event that an action creates.
func plannedID(a *effects.PlannedAction) (id [16]byte) {
	switch {
	case a.Effect.Execution != nil:
		return a.Effect.Execution.ID
	case a.Effect.Publication != nil:
		return a.Effect.Publication.ID
	}
	return id
}

// ttlOf returns how long the key of an action's effect is taken.
func ttlOf(a *effects.PlannedAction) time.Duration {
	if x := a.Effect.Execution; x != nil && x.KeyTTL > 0 {
		return x.KeyTTL
	}
	return eventhook.TargetKeyTTL
}

// claimedKeys has the id of the execution or the event that each key stands for.
type claimedKeys map[targetKey][16]byte

// encodeKeys encodes the keys of a batch's effects, each once, and returns the ids that
// they stand for if they are free. It returns nil if there are no keys.
func (c *effectColumns) encodeKeys(batch []*effects.Settlement, now time.Time) claimedKeys {
	var claimed claimedKeys
	to := c.keys
	to.reset()
	to.moment(claimKeyNow, now)
	for _, s := range batch {
		for i := range s.Actions {
			a := &s.Actions[i]
			k, ok := keyOf(s, a)
			if !ok || a.Failure != "" {
				continue
			}
			if _, isDuplicate := claimed[k]; isDuplicate {
				continue
			}
			if claimed == nil {
				claimed = claimedKeys{}
			}
			claimed[k] = plannedID(a)
			to.uuid(claimKeyTenant, k.tenant)
			to.text(claimKeyScope, k.scope)
			to.text(claimKeyKey, k.key)
			to.uuid(claimKeyID, claimed[k])
			to.time(claimKeyExpiresAt, now.Add(ttlOf(a)))
		}
	}
	return claimed
}

// read replaces the ids by the ids that claimKeysSQL returned.
func (m claimedKeys) read(rows [][][]byte) {
	for _, row := range rows {
		m[targetKey{eventhook.TenantID(row[0]), string(row[1]), string(row[2])}] = [16]byte(row[3])
	}
}

// concludeActions sets the status of each action. claimed has the ids that the keys stand
// for; if nil, all keys count as free. settled has the results of the outcomes of promises.
// concludeActions reports whether an action is skipped because its key stands for an
// earlier effect.
func concludeActions(s *effects.Settlement, claimed claimedKeys, settled promiseResults) (hasSkipped bool) {
	for i := range s.Actions {
		a := &s.Actions[i]
		a.Status, a.ErrorMessage = eventhook.ActionSuccess, ""
		if a.Failure != "" {
			a.Status, a.ErrorMessage = eventhook.ActionFailed, a.Failure
			continue
		}
		id := plannedID(a)
		if k, ok := keyOf(s, a); ok && claimed != nil && claimed[k] != id {
			a.Status, id, hasSkipped = eventhook.ActionSkipped, claimed[k], true
		}
		switch {
		case a.Effect.Execution != nil:
			a.ExecutionID = id
		case a.Effect.Publication != nil:
			a.PublishedEventID = id
		case a.Effect.Promise != nil:
			concludePromise(a, settled[a.Effect.Promise])
		case a.Effect.Request != nil:
			a.Status, a.IsRequest = eventhook.ActionPending, true
		}
	}
	return hasSkipped
}
