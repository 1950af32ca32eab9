package pg

import (
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/outbound"
)

// Ordered deliveries (ADR 29). Of the open deliveries of a destination and a key, the first
// has a due_at, and each other one waits with due_at = 'infinity', so no claim finds it. A
// transaction that inserts, ends or reopens ordered deliveries holds the locks of their keys.
// When the first one ends, the trigger order_deliveries makes the next one due.

// lockOrderSQL locks the order of keys until the transaction ends. It waits without a limit:
// the transactions that hold these locks are about to commit. Slots must ascend; see
// eventhook.lock_order.
var lockOrderSQL = newStatement("lock_order", `
SELECT eventhook.lock_order(slot) FROM @keys(slot int4) WHERE set_config('lock_timeout', '0', true) = '0'`)

var lockOrderSlot = lockOrderSQL.int4("keys.slot")

// insertOrderedSQL stores ordered deliveries of events that the transaction has stored. The
// first one of a key is due if no delivery of the key is open, and each other one waits. The
// rows of a batch get their places in its order. The snapshot of the statement must be newer
// than the locks of lockOrderSQL. Index delivery_order, and the primary key of events.
var insertOrderedSQL = newStatement("insert_ordered", `
INSERT INTO eventhook.delivery (id, tenant_id, destination_id, event_id, event_type, status, order_key, order_seq, due_at)
SELECT id, tenant_id, destination_id, event_id, event_type, 'pending', order_key, nextval('eventhook.delivery_order_seq'),
    CASE WHEN is_first THEN @now::timestamptz ELSE 'infinity' END
FROM (
    SELECT deliveries.*, open.id IS NULL AND row_number() OVER (PARTITION BY destination_id, order_key ORDER BY n) = 1 AS is_first
    FROM @deliveries(id uuid, tenant_id uuid, destination_id uuid, event_id uuid, event_type text, order_key uuid, n ordinality)
    LEFT JOIN LATERAL (
        SELECT d.id FROM eventhook.delivery d
        WHERE d.destination_id = deliveries.destination_id AND d.order_key = deliveries.order_key AND d.due_at IS NOT NULL LIMIT 1) open ON true
    WHERE EXISTS (SELECT FROM eventhook.event e WHERE e.tenant_id = deliveries.tenant_id AND e.id = deliveries.event_id)
    ORDER BY n) s
ON CONFLICT (tenant_id, id) DO NOTHING`)

var (
	insertOrderedID          = insertOrderedSQL.uuid("deliveries.id")
	insertOrderedTenant      = insertOrderedSQL.uuid("deliveries.tenant_id")
	insertOrderedDestination = insertOrderedSQL.uuid("deliveries.destination_id")
	insertOrderedEvent       = insertOrderedSQL.uuid("deliveries.event_id")
	insertOrderedEventType   = insertOrderedSQL.text("deliveries.event_type")
	insertOrderedKey         = insertOrderedSQL.uuid("deliveries.order_key")
	insertOrderedNow         = insertOrderedSQL.moment("now")
)

// orderStatements are prepared on each connection that stores deliveries.
var orderStatements = []*statement{lockOrderSQL, insertOrderedSQL}

// orderedColumns are the parameters of the statements that store ordered deliveries.
type orderedColumns struct {
	keys, deliveries *columns
	slots            orderSlots
}

func newOrderedColumns() orderedColumns {
	return orderedColumns{keys: newColumns(lockOrderSQL), deliveries: newColumns(insertOrderedSQL)}
}

func (c *orderedColumns) reset() {
	c.slots = orderSlots{}
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
	to.uuid(insertOrderedKey, d.OrderKey)
	d.Status = eventhook.DeliveryPending
}

// store sends the statements, which are the last ones of their transaction, so that it holds
// the locks for a short time. Without deliveries it sends nothing.
func (c *orderedColumns) store(send statementSender, now time.Time) {
	if c.deliveries.isEmpty() {
		return
	}
	c.slots.send(send, c.keys)
	c.deliveries.moment(insertOrderedNow, now)
	send(insertOrderedSQL, c.deliveries)
}

// orderSlots are the locks of keys, one for each value of eventhook.order_slot.
type orderSlots [256]bool

func (s *orderSlots) add(k eventhook.OrderKey) {
	if !k.IsZero() {
		s[k[len(k)-1]] = true
	}
}

// send locks the slots. If there are none, it sends nothing.
func (s *orderSlots) send(send statementSender, c *columns) {
	c.reset()
	for slot, isUsed := range s {
		if isUsed {
			c.int4(lockOrderSlot, slot)
		}
	}
	send.rows(lockOrderSQL, c)
}

// queueOrderLocks queues the statement that locks the order of settlements' keys, and returns
// the number of its statements: 0 if no delivery is ordered.
func queueOrderLocks(b *pgconn.Batch, c *columns, batch []*outbound.DeliverySettlement) int {
	var slots orderSlots
	for _, s := range batch {
		slots.add(s.Delivery.OrderKey)
	}
	if slots == (orderSlots{}) {
		return 0
	}
	slots.send(batchSender(b), c)
	return 1
}

// insertOrdered stores ordered deliveries in a transaction of pgx.
func insertOrdered(ctx context.Context, tx pgx.Tx, list []*eventhook.Delivery, now time.Time) error {
	if len(list) == 0 {
		return nil
	}
	c, b := newOrderedColumns(), &pgconn.Batch{}
	c.reset()
	for _, d := range list {
		c.add(d.TenantID, d.EventID, d.EventType, d)
	}
	c.store(batchSender(b), now)
	_, err := tx.Conn().PgConn().ExecBatch(ctx, b).ReadAll()
	return err
}

// lockOrderOfSQL locks the order of the keys of deliveries, before a statement ends or reopens
// them. Primary keys.
const lockOrderOfSQL = `
SELECT eventhook.lock_order(slot) FROM (
    SELECT DISTINCT eventhook.order_slot(d.order_key) AS slot
    FROM unnest($1::uuid[], $2::uuid[]) AS u (tenant_id, id) JOIN eventhook.delivery d ON d.tenant_id = u.tenant_id AND d.id = u.id
    WHERE d.order_key IS NOT NULL ORDER BY slot) s`

// lockAllOrderSQL locks the order of all keys if an ordered delivery is open, for a statement
// that ends deliveries of unknown keys. Index delivery_order.
const lockAllOrderSQL = `
SELECT eventhook.lock_order(slot) FROM generate_series(0, 255) slot
WHERE (SELECT true FROM eventhook.delivery WHERE order_key IS NOT NULL AND due_at IS NOT NULL ORDER BY destination_id LIMIT 1)`

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
