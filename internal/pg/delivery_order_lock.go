package pg

import "github.com/eventhook/eventhook"

// lockOrderSQL locks the order of keys until the transaction ends. It waits without a limit:
// the transactions that hold these locks are about to commit. Slots must ascend; see
// eventhook.lock_order.
var lockOrderSQL = newStatement("lock_order", `
SELECT eventhook.lock_order(slot) FROM @keys(slot int4) WHERE set_config('lock_timeout', '0', true) = '0'`)

var lockOrderSlot = lockOrderSQL.int4("keys.slot")

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
