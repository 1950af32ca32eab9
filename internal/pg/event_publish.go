package pg

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/outbound"
)

// publishScope is the scope of the keys with which tenants publish.
const publishScope = "publish"

// publishSQL stores events that tenants publish, with their deliveries, in one statement,
// which is one transaction and one round trip. It omits stale events, which were
// matched against subscriptions that have changed since. The whole statement sees the
// database as it was when the statement began, so it sees every change that was committed
// before. Then it claims keys as acceptSQL does, and stores the events that claimed their
// key or have no key.
//
// The stored events are selected with IN … IS TRUE, which PostgreSQL evaluates with a hash
// table. For a join, the planner, which estimates ten rows for any array, would compare
// each row with each.
//
// It returns the ids of stale events, alone, and the id that each key stands for. Primary
// keys.
var publishSQL = newStatement("publish", `
WITH sent AS MATERIALIZED (
    SELECT events.*,
        events.generation <> coalesce((SELECT g.generation FROM eventhook.tenant_generation g WHERE g.tenant_id = events.tenant_id), 0) + `+operatorGeneration+` AS is_stale
    FROM @events(id uuid, tenant_id uuid, generation int8, key text, body_size int4, origin text, event_type text,
                 content_type text, source_ip text, trace_id text, request_id text, correlation_id text, n ordinality)
), claimed AS (
    INSERT INTO eventhook.idempotency_key AS k (tenant_id, scope, key, made, expires_at)
    SELECT tenant_id, '`+publishScope+`', key, id, @expires::timestamptz FROM (
        SELECT DISTINCT ON (tenant_id, key COLLATE "C") * FROM sent
        WHERE key IS NOT NULL AND NOT is_stale
        ORDER BY tenant_id, key COLLATE "C", n) f
    ORDER BY tenant_id, key COLLATE "C"
    `+onKeyTaken+`
    RETURNING tenant_id, key, made
), stored AS (
    INSERT INTO eventhook.event (id, tenant_id, status, origin, event_type, content_type, body_size, idempotency_key, source_ip,
        trace_id, request_id, correlation_id, processed_at)
    SELECT id, tenant_id, 'delivered', origin, event_type, content_type, body_size, key, source_ip,
        trace_id, request_id, correlation_id, @now::timestamptz
    FROM sent
    WHERE NOT is_stale AND (key IS NULL OR (id IN (SELECT made FROM claimed)) IS TRUE)
    RETURNING id
), payloads AS (
    INSERT INTO eventhook.event_payload (event_id, headers, body, envelope)
    SELECT id, headers, body, envelope::json FROM @events(id uuid, headers bytea, body bytea, envelope text)
    WHERE (id IN (SELECT id FROM stored)) IS TRUE
), stored_deliveries AS (
    INSERT INTO eventhook.delivery (id, tenant_id, destination_id, event_id, event_type, due_at, status, lease_token, acquired_by)
    SELECT id, tenant_id, destination_id, event_id, event_type, coalesce(due_at, @now::timestamptz),
        CASE WHEN due_at IS NULL THEN 'pending' ELSE 'acquired' END, CASE WHEN due_at IS NULL THEN 0 ELSE 1 END,
        CASE WHEN due_at IS NOT NULL THEN @instance::uuid END
    FROM @deliveries(id uuid, tenant_id uuid, destination_id uuid, event_id uuid, event_type text, due_at timestamptz)
    WHERE (event_id IN (SELECT id FROM stored)) IS TRUE
)
SELECT id, NULL::text AS key, NULL::uuid AS made FROM sent WHERE is_stale
UNION ALL
SELECT tenant_id, key, made FROM claimed`)

var (
	publishID            = publishSQL.uuid("events.id")
	publishTenant        = publishSQL.uuid("events.tenant_id")
	publishGeneration    = publishSQL.int8("events.generation")
	publishKey           = publishSQL.text("events.key")
	publishBodySize      = publishSQL.int4("events.body_size")
	publishOrigin        = publishSQL.text("events.origin")
	publishEventType     = publishSQL.text("events.event_type")
	publishContentType   = publishSQL.text("events.content_type")
	publishSourceIP      = publishSQL.text("events.source_ip")
	publishTraceID       = publishSQL.text("events.trace_id")
	publishRequestID     = publishSQL.text("events.request_id")
	publishCorrelationID = publishSQL.text("events.correlation_id")
	publishHeaders       = publishSQL.bytes("events.headers")
	publishBody          = publishSQL.bytes("events.body")
	publishEnvelope      = publishSQL.text("events.envelope")

	publishDeliveryID          = publishSQL.uuid("deliveries.id")
	publishDeliveryTenant      = publishSQL.uuid("deliveries.tenant_id")
	publishDeliveryDestination = publishSQL.uuid("deliveries.destination_id")
	publishDeliveryEvent       = publishSQL.uuid("deliveries.event_id")
	publishDeliveryEventType   = publishSQL.text("deliveries.event_type")
	publishDeliveryDueAt       = publishSQL.time("deliveries.due_at")

	publishNow      = publishSQL.moment("now")
	publishExpires  = publishSQL.moment("expires")
	publishInstance = publishSQL.id("instance")
)

// Publish stores the batch in one transaction: events, bodies, keys and deliveries. When
// it returns nil, all stored events are on disk, and each item of the batch has a result:
//   - It is stored: its Event is EventDelivered, since the processor has nothing to do for
//     it, and Count is the number of its Deliveries. Deliveries with a lease are acquired
//     (token 1), other deliveries are pending and due now.
//   - Its key was seen before and has not expired, in this batch or earlier: the Event is
//     EventDuplicate with DuplicateOf, and Count is the number of deliveries of the
//     original (0 if they are past their retention or cannot be counted).
//   - It is IsStale: the tenant's subscriptions have changed since they were matched.
//   - The database refuses its values: the Event's Status is empty. Other items are not
//     affected.
//
// Only items of the first kind are stored. If Publish returns an error, which is
// KindUnavailable if the database is down, the batch may be stored nevertheless: the
// connection can break after the commit.
func (db *DB) Publish(ctx context.Context, batch []*outbound.PublishItem) error {
	conn, err := db.accept.Acquire(ctx)
	if err != nil {
		return translate("publish events", err)
	}
	defer conn.Release()
	publish := func(part []*outbound.PublishItem) error { return db.publishOn(ctx, conn.Conn().PgConn(), part) }
	err = publish(batch)
	if isDataError(err) {
		err = bisect(batch, publish, func(p *outbound.PublishItem, err error) {
			db.log.Error("the database refused a published event", "event", p.Event.ID, "trace_id", p.Event.Trace(), "error", err)
		})
	}
	if err != nil {
		return translate("publish events", err)
	}
	db.notifyPublished(batch)
	if err := db.countOriginalDeliveries(ctx, batch); err != nil { // the events are stored nevertheless
		db.log.Warn("cannot count the deliveries of the originals of duplicates", "error", err)
	}
	return nil
}

func (db *DB) publishOn(ctx context.Context, conn *pgconn.PgConn, batch []*outbound.PublishItem) error {
	c := db.publishBufs.Get().(*publishColumns) //nolint:forcetypeassert // the pool holds nothing else
	c.reset()
	c.ordered.reset()
	defer db.publishBufs.Put(c)
	now, b := db.now(), &pgconn.Batch{}
	if err := c.encode(batch); err != nil {
		return err
	}
	stored := 0 // the number of the statement publishSQL
	if c.ordered.isUsed() {
		b.ExecPrepared(deferFlushSQL.name, nil, nil, binaryResults)
		stored++
	}
	c.moment(publishNow, now)
	c.moment(publishExpires, db.keyExpiry(now))
	c.id(publishInstance, db.instance)
	batchSender(b)(publishSQL, c.columns)
	c.ordered.store(batchSender(b), now)
	results, err := conn.ExecBatch(ctx, b).ReadAll()
	if err == nil && c.ordered.isUsed() {
		err = flushOrder(ctx, conn)
	}
	if err != nil {
		return err
	}
	concludePublished(batch, results[stored].Rows, now)
	c.ordered.conclude(results[len(results)-1].Rows)
	return nil
}

// publishColumns are the parameters of the statements of Publish.
type publishColumns struct {
	*columns
	ordered orderedColumns
}

func newPublishColumns(instance eventhook.InstanceID) *publishColumns {
	return &publishColumns{newColumns(publishSQL), newOrderedColumns(instance)}
}

func (c *publishColumns) encode(batch []*outbound.PublishItem) error {
	for _, p := range batch {
		e := p.Event
		envelope, err := envelopeJSON(e.Envelope)
		if err != nil {
			return fmt.Errorf("publish %s: %w", e.ID, err)
		}
		c.uuid(publishID, e.ID)
		c.uuid(publishTenant, e.TenantID)
		c.int8(publishGeneration, p.Generation)
		c.optionalText(publishKey, e.IdempotencyKey)
		c.int4(publishBodySize, len(e.Body))
		c.text(publishOrigin, string(e.Origin))
		c.text(publishEventType, e.EventType)
		c.text(publishContentType, e.ContentType)
		c.optionalText(publishSourceIP, e.SourceIP)
		c.optionalText(publishTraceID, e.TraceID)
		c.optionalText(publishRequestID, e.RequestID)
		c.optionalText(publishCorrelationID, e.CorrelationID)
		c.bytes(publishHeaders, e.Headers)
		c.bytes(publishBody, e.Body)
		c.optionalText(publishEnvelope, envelope)
		for _, d := range p.Deliveries {
			if isOrdered(d) {
				c.ordered.add(e.TenantID, e.ID, e.EventType, d)
				continue
			}
			c.uuid(publishDeliveryID, d.ID)
			c.uuid(publishDeliveryTenant, e.TenantID)
			c.uuid(publishDeliveryDestination, d.Destination().ID())
			c.uuid(publishDeliveryEvent, e.ID)
			c.text(publishDeliveryEventType, e.EventType)
			c.time(publishDeliveryDueAt, d.Lease.Until)
		}
	}
	return nil
}

// envelopeJSON returns an envelope as JSON, "" for nil.
func envelopeJSON(e *eventhook.Envelope) (string, error) {
	if e == nil {
		return "", nil
	}
	raw, err := json.Marshal(e)
	return strings.ToValidUTF8(string(raw), "\uFFFD"), err
}

// concludePublished sets the results of a batch from the rows of publishSQL.
func concludePublished(batch []*outbound.PublishItem, rows [][][]byte, now time.Time) {
	stale := map[eventhook.EventID]bool{}
	claimed := make(map[targetKey]eventhook.EventID, len(rows))
	for _, row := range rows {
		if row[1] == nil {
			stale[eventhook.EventID(row[0])] = true
			continue
		}
		claimed[targetKey{eventhook.TenantID(row[0]), publishScope, string(row[1])}] = eventhook.EventID(row[2])
	}
	for _, p := range batch {
		e := p.Event
		if p.IsStale = stale[e.ID]; p.IsStale {
			continue
		}
		original := e.ID
		if e.IdempotencyKey != "" {
			original = claimed[targetKey{e.TenantID, publishScope, e.IdempotencyKey}]
		}
		if original != e.ID {
			e.Status, e.DuplicateOf = eventhook.EventDuplicate, original
			continue
		}
		e.Status, e.ProcessedAt, p.Count = eventhook.EventDelivered, &now, len(p.Deliveries)
		concludeDeliveries(e.TenantID, e.ID, e.EventType, p.Deliveries)
	}
}

// concludeDeliveries sets the fields of deliveries to the stored values.
func concludeDeliveries(tenant eventhook.TenantID, event eventhook.EventID, eventType string, list []*eventhook.Delivery) {
	for _, d := range list {
		d.TenantID, d.EventID, d.EventType, d.Status = tenant, event, eventType, eventhook.DeliveryPending
		if !d.Lease.Until.IsZero() {
			d.Status, d.Lease.Token = eventhook.DeliveryAcquired, 1
		}
	}
}

// countDeliveriesSQL counts the deliveries of events. Primary key, one partition for each
// event.
const countDeliveriesSQL = `
SELECT u.event_id, (SELECT count(*) FROM eventhook.delivery d
    WHERE d.tenant_id = u.tenant_id AND d.id >= u.first_id AND d.id <= u.last_id AND d.event_id = u.event_id AND d.destination_id <> ALL(` + operatorSubscriptions + `))
FROM unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::uuid[]) AS u (tenant_id, event_id, first_id, last_id)`

// countOriginalDeliveries sets Count of each duplicate to the number of deliveries of its
// original.
func (db *DB) countOriginalDeliveries(ctx context.Context, batch []*outbound.PublishItem) error {
	var tenants, events, firstIDs, lastIDs [][16]byte
	for _, p := range batch {
		if p.Event.Status == eventhook.EventDuplicate {
			from, until := eventhook.DeliveryIDRange(p.Event.DuplicateOf)
			tenants, events = append(tenants, p.Event.TenantID), append(events, p.Event.DuplicateOf)
			firstIDs, lastIDs = append(firstIDs, from), append(lastIDs, until)
		}
	}
	if len(events) == 0 {
		return nil
	}
	rows, err := db.work.Query(ctx, countDeliveriesSQL, tenants, events, firstIDs, lastIDs)
	if err != nil {
		return translate("count deliveries", err)
	}
	counts := map[eventhook.EventID]int{}
	var id eventhook.EventID
	var n int
	_, err = pgx.ForEachRow(rows, []any{(*[16]byte)(&id), &n}, func() error {
		counts[id] = n
		return nil
	})
	for _, p := range batch {
		if p.Event.Status == eventhook.EventDuplicate {
			p.Count = counts[p.Event.DuplicateOf]
		}
	}
	return translate("count deliveries", err)
}

// notifyPublished notifies the watchers of events that Publish stored.
func (db *DB) notifyPublished(batch []*outbound.PublishItem) {
	if db.feed.isUnwatched() {
		return
	}
	now := db.now()
	for _, p := range batch {
		if p.Event.Status == eventhook.EventDelivered && !p.IsStale {
			db.feed.eventsChanged(now, p.Event.TenantID, p.Event.ID)
		}
	}
}
