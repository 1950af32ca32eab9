package pg

import (
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/eventhook/eventhook"
)

// Ordered deliveries (ADR 29). Of the open deliveries of a destination and a key, the first
// has a due_at, and each other one waits with due_at = 'infinity', so no claim finds it. A
// transaction that inserts, ends or reopens ordered deliveries holds the locks of their keys.
// When the first one ends, the trigger order_deliveries makes the next one due.

// insertOrderedSQL stores ordered deliveries of events that the transaction has stored. The
// first one of a key is leased if it has a due_at, and due now otherwise, if no delivery of
// the key is open; each other one waits. The statement returns the leased deliveries. The
// rows of a batch get their places in its order. The snapshot of the statement must be newer
// than the locks of lockOrderSQL. Index delivery_order, and the primary key of events.
var insertOrderedSQL = newStatement("insert_ordered", `
INSERT INTO eventhook.delivery AS d (id, tenant_id, destination_id, event_id, event_type, status, lease_token, acquired_by, due_at, order_key, order_seq)
SELECT id, tenant_id, destination_id, event_id, event_type,
    CASE WHEN is_first AND due_at IS NOT NULL THEN 'acquired' ELSE 'pending' END, CASE WHEN is_first AND due_at IS NOT NULL THEN 1 ELSE 0 END,
    CASE WHEN is_first AND due_at IS NOT NULL THEN @instance::uuid END,
    CASE WHEN is_first THEN coalesce(due_at, @now::timestamptz) ELSE 'infinity' END, order_key, nextval('eventhook.delivery_order_seq')
FROM (
    SELECT deliveries.*, open.id IS NULL AND row_number() OVER (PARTITION BY destination_id, order_key ORDER BY n) = 1 AS is_first
    FROM @deliveries(id uuid, tenant_id uuid, destination_id uuid, event_id uuid, event_type text, due_at timestamptz, order_key uuid, n ordinality)
    LEFT JOIN LATERAL (
        SELECT d.id FROM eventhook.delivery d
        WHERE d.destination_id = deliveries.destination_id AND d.order_key = deliveries.order_key AND d.due_at IS NOT NULL LIMIT 1) open ON true
    WHERE (SELECT true FROM eventhook.event e WHERE e.tenant_id = deliveries.tenant_id AND e.id = deliveries.event_id LIMIT 1)
    ORDER BY n) s
ON CONFLICT (tenant_id, id) DO NOTHING
RETURNING CASE WHEN status = 'acquired' THEN id END`)

var (
	insertOrderedID          = insertOrderedSQL.uuid("deliveries.id")
	insertOrderedTenant      = insertOrderedSQL.uuid("deliveries.tenant_id")
	insertOrderedDestination = insertOrderedSQL.uuid("deliveries.destination_id")
	insertOrderedEvent       = insertOrderedSQL.uuid("deliveries.event_id")
	insertOrderedEventType   = insertOrderedSQL.text("deliveries.event_type")
	insertOrderedDueAt       = insertOrderedSQL.time("deliveries.due_at")
	insertOrderedKey         = insertOrderedSQL.uuid("deliveries.order_key")
	insertOrderedNow         = insertOrderedSQL.moment("now")
	insertOrderedInstance    = insertOrderedSQL.id("instance")
)

// orderStatements are prepared on each connection that stores deliveries.
var orderStatements = []*statement{lockOrderSQL, insertOrderedSQL, deferFlushSQL, flushSQL, skipOrderSQL, advanceOrderSQL}

// orderedColumns are the parameters of the statements that store ordered deliveries.
type orderedColumns struct {
	instance         eventhook.InstanceID // the holder of leased deliveries
	keys, deliveries *columns
	slots            orderSlots
	list             []*eventhook.Delivery
}

func newOrderedColumns(instance eventhook.InstanceID) orderedColumns {
	return orderedColumns{instance: instance, keys: newColumns(lockOrderSQL), deliveries: newColumns(insertOrderedSQL)}
}

func (c *orderedColumns) reset() {
	c.slots, c.list = orderSlots{}, nil
	c.deliveries.reset()
}

func (c *orderedColumns) add(tenant eventhook.TenantID, event eventhook.EventID, eventType string, d *eventhook.Delivery) {
	c.slots.add(d.OrderKey)
	to := c.deliveries
	to.uuid(insertOrderedID, d.ID)
	to.uuid(insertOrderedTenant, tenant)
	to.uuid(insertOrderedDestination, d.Destination().ID())
	to.uuid(insertOrderedEvent, event)
	to.text(insertOrderedEventType, eventType)
	to.time(insertOrderedDueAt, d.Lease.Until)
	to.uuid(insertOrderedKey, d.OrderKey)
	c.list = append(c.list, d)
}

// isUsed reports whether a delivery was added.
func (c *orderedColumns) isUsed() bool { return !c.deliveries.isEmpty() }

// store sends the statements, which are the last ones of their transaction, so that it holds
// the locks for a short time. Without deliveries it sends nothing.
func (c *orderedColumns) store(send statementSender, now time.Time) {
	if !c.isUsed() {
		return
	}
	c.slots.send(send, c.keys)
	c.deliveries.moment(insertOrderedNow, now)
	c.deliveries.id(insertOrderedInstance, c.instance)
	send(insertOrderedSQL, c.deliveries)
}

// storeDeferred is store for a transaction after whose commit the caller runs flushOrder if
// isUsed returns true.
func (c *orderedColumns) storeDeferred(send statementSender, now time.Time) {
	if c.isUsed() {
		send(deferFlushSQL, nil)
		c.store(send, now)
	}
}

// conclude sets the leases of the stored deliveries by the rows of insertOrderedSQL. A delivery
// that waits loses its lease.
func (c *orderedColumns) conclude(rows [][][]byte) {
	if len(c.list) == 0 {
		return
	}
	leased := make(map[eventhook.DeliveryID]bool, len(rows))
	for _, row := range rows {
		if row[0] != nil {
			leased[eventhook.DeliveryID(row[0])] = true
		}
	}
	for _, d := range c.list {
		d.Status, d.Lease.Token = eventhook.DeliveryPending, 0
		if leased[d.ID] {
			d.Status, d.Lease.Token = eventhook.DeliveryAcquired, 1
		}
	}
	c.list = nil
}

// insertOrdered stores ordered deliveries, which are not leased, in a transaction of pgx.
func insertOrdered(ctx context.Context, tx pgx.Tx, list []*eventhook.Delivery, now time.Time) error {
	if len(list) == 0 {
		return nil
	}
	c, b := newOrderedColumns(eventhook.InstanceID{}), &pgconn.Batch{}
	c.reset()
	for _, d := range list {
		c.add(d.TenantID, d.EventID, d.EventType, d)
	}
	c.store(batchSender(b), now)
	_, err := tx.Conn().PgConn().ExecBatch(ctx, b).ReadAll()
	return err
}

// splitOrdered returns the deliveries that are not ordered, and these that are.
func splitOrdered(list []*eventhook.Delivery) (plain, ordered []*eventhook.Delivery) {
	if !slices.ContainsFunc(list, isOrdered) {
		return list, nil
	}
	for _, d := range list {
		if isOrdered(d) {
			ordered = append(ordered, d)
		} else {
			plain = append(plain, d)
		}
	}
	return plain, ordered
}

func isOrdered(d *eventhook.Delivery) bool { return !d.OrderKey.IsZero() }
