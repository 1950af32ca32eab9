package pg

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/outbound"
)

// skipOrderSQL is deferFlushSQL, and turns the trigger order_deliveries off until the
// transaction ends, which runs advanceOrderSQL.
var skipOrderSQL = newStatement("skip_order", `SELECT set_config('eventhook.orders', 'off', true), set_config('synchronous_commit', 'off', true)`)

// advanceOrderSQL makes the next delivery of each key due, unless the first one is due or
// leased. Its snapshot must be newer than the locks of lockOrderSQL and the end of the
// deliveries. Index delivery_order, then the primary key.
var advanceOrderSQL = newStatement("advance_order", `
WITH next AS MATERIALIZED (
    SELECT first.tenant_id, first.id
    FROM @keys(destination_id uuid, order_key uuid)
    CROSS JOIN LATERAL (
        SELECT d.tenant_id, d.id, d.due_at FROM eventhook.delivery d
        WHERE d.destination_id = keys.destination_id AND d.order_key = keys.order_key AND d.due_at IS NOT NULL
        ORDER BY d.due_at, d.order_seq LIMIT 1) first
    WHERE first.due_at = 'infinity'
)
UPDATE eventhook.delivery d SET due_at = least(@now::timestamptz, now())
FROM next WHERE d.tenant_id = next.tenant_id AND d.id = next.id
RETURNING d.destination_id, d.order_key`)

var (
	advanceDestination = advanceOrderSQL.uuid("keys.destination_id")
	advanceKey         = advanceOrderSQL.uuid("keys.order_key")
	advanceNow         = advanceOrderSQL.moment("now")
)

// orderEndColumns are the parameters of the statements around the end of ordered deliveries.
type orderEndColumns struct {
	locks, keys *columns
	slots       orderSlots
}

func newOrderEndColumns() orderEndColumns {
	return orderEndColumns{locks: newColumns(lockOrderSQL), keys: newColumns(advanceOrderSQL)}
}

// begin queues the statement before ordered deliveries end, and returns the number of
// statements: 0 if the settlements end none.
func (c *orderEndColumns) begin(b *pgconn.Batch, batch []*outbound.DeliverySettlement, now time.Time) int {
	c.encode(batch, now)
	if c.keys.isEmpty() {
		return 0
	}
	b.ExecPrepared(skipOrderSQL.name, nil, nil, binaryResults)
	return 1
}

// encode sets the keys to those of the ordered deliveries that the settlements end.
func (c *orderEndColumns) encode(batch []*outbound.DeliverySettlement, now time.Time) {
	c.slots = orderSlots{}
	c.keys.reset()
	for _, s := range batch {
		if d := s.Delivery; endsOrdered(s) {
			c.slots.add(d.OrderKey)
			c.keys.uuid(advanceDestination, d.Destination().ID())
			c.keys.uuid(advanceKey, d.OrderKey)
		}
	}
	if !c.keys.isEmpty() {
		c.keys.moment(advanceNow, now)
	}
}

// end queues the statements after ordered deliveries have ended, and returns their number: 0
// if none end. The locks come last, so that the transaction holds them for a short time.
func (c *orderEndColumns) end(b *pgconn.Batch) int {
	if c.keys.isEmpty() {
		return 0
	}
	c.slots.send(batchSender(b), c.locks)
	batchSender(b)(advanceOrderSQL, c.keys)
	return 2
}

// setNextIsDue sets NextIsDue by the rows of advanceOrderSQL.
func setNextIsDue(batch []*outbound.DeliverySettlement, rows [][][]byte) {
	type key struct {
		destination eventhook.DestinationID
		order       eventhook.OrderKey
	}
	isDue := make(map[key]bool, len(rows))
	for _, row := range rows {
		isDue[key{eventhook.DestinationID(row[0]), eventhook.OrderKey(row[1])}] = true
	}
	for _, s := range batch {
		s.NextIsDue = isDue[key{s.Delivery.Destination().ID(), s.Delivery.OrderKey}]
	}
}

// advanceOrder is end for a transaction that has other statements after the settlements. They
// must have begun with begin.
func advanceOrder(ctx context.Context, conn *pgconn.PgConn, batch []*outbound.DeliverySettlement, now time.Time) error {
	c, b := newOrderEndColumns(), &pgconn.Batch{}
	c.encode(batch, now)
	if c.end(b) == 0 {
		return nil
	}
	results, err := conn.ExecBatch(ctx, b).ReadAll()
	if err == nil {
		setNextIsDue(batch, results[len(results)-1].Rows)
	}
	return err
}
