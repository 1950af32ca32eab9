package pg

import (
	"bytes"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/eventhook/eventhook"
)

// An event is processing with due_at NULL while deliveries to targets of its routes are
// open. Such an event cannot be claimed; its status follows from these deliveries. Two
// kinds of transactions change it:
//
//   - SettleDeliveries updates deliveries, then locks their events (lockEventsSQL), then
//     concludes these (concludeEventsSQL).
//   - SettleEvents updates events, then writes their deliveries, then concludes the
//     events that it leaves processing with due_at NULL.
//
// Each step is a separate statement, in this order, in one transaction. In READ COMMITTED
// every statement has its own snapshot. Therefore no interleaving leaves an event
// processing without an open delivery:
//
//   - If two transactions settle deliveries, the second waits at lockEventsSQL until the
//     first has committed. Its concludeEventsSQL begins after that and sees both
//     deliveries. In a single statement, the snapshot would be older than the wait, and
//     neither transaction would see the delivery of the other.
//   - If SettleDeliveries locks the event before SettleEvents updates it, the event is
//     still leased, and SettleDeliveries does not change it. SettleEvents waits for that
//     transaction, and its concludeEventsSQL sees the settled delivery.
//   - If SettleEvents is first, SettleDeliveries waits at lockEventsSQL, and its
//     concludeEventsSQL sees the event as SettleEvents left it. For this, lockEventsSQL
//     must lock the event regardless of its status.
//
// Lock order: deliveries, then events by id. SettleEvents locks its events before its
// deliveries. RestartDeliveries does so, too, but skips locked deliveries. If two transactions
// wait for each other, PostgreSQL ends one transaction with a
// deadlock, and it is retried.

// lockEventsSQL locks events of any status in the order of their ids. Primary key, one
// partition each.
var lockEventsSQL = newStatement("lock_events", `
SELECT FROM @events(tenant_id uuid, id uuid)
JOIN eventhook.event e ON e.tenant_id = events.tenant_id AND e.id = events.id
ORDER BY e.id FOR UPDATE OF e`)

// concludeEventsSQL ends events whose status follows from the deliveries of their
// routes: dead if one of these is dead, delivered if all have ended. A delivery that died
// before the event was reprocessed, and that the routes of today have not restarted, does
// not count: its route or target was replaced. The ids of an event's
// deliveries lie between first_id and last_id. It returns the events that it ended.
// Primary keys, one partition each.
var concludeEventsSQL = lockEventsSQL.extend("conclude_events", `
UPDATE eventhook.event e
SET status = CASE WHEN `+isDeadSQL+` THEN 'dead' ELSE 'delivered' END, processed_at = @now::timestamptz,
    last_error = CASE WHEN `+isDeadSQL+` THEN s.error END
FROM @events(tenant_id uuid, id uuid, first_id uuid, last_id uuid)
CROSS JOIN LATERAL (
    SELECT max(d.completed_at) FILTER (WHERE d.status = 'dead') AS died_at, coalesce(bool_or(d.status NOT IN ('success', 'dead')), false) AS open,
        (array_agg('target ' || d.target_index + 1 || ': ' || d.last_error ORDER BY d.completed_at DESC, d.id) FILTER (WHERE d.status = 'dead'))[1] AS error
    FROM eventhook.delivery d
    WHERE d.tenant_id = events.tenant_id AND d.id >= events.first_id AND d.id <= events.last_id AND d.event_id = events.id AND d.route_id IS NOT NULL
) s
WHERE e.tenant_id = events.tenant_id AND e.id = events.id AND e.status = 'processing' AND e.due_at IS NULL AND (`+isDeadSQL+` OR NOT s.open)
RETURNING e.tenant_id, e.id, e.status`)

// isDeadSQL says whether a delivery s of the current routing of event e is dead.
const isDeadSQL = `coalesce(s.died_at >= coalesce(e.rerouted_at, '-infinity'), false)`

// Parameters of lockEventsSQL and concludeEventsSQL.
var (
	concludeTenant  = lockEventsSQL.uuid("events.tenant_id")
	concludeID      = lockEventsSQL.uuid("events.id")
	concludeFirstID = concludeEventsSQL.uuid("events.first_id")
	concludeLastID  = concludeEventsSQL.uuid("events.last_id")
	concludeNow     = concludeEventsSQL.moment("now")
)

// eventKey is the primary key of an event.
type eventKey struct {
	tenant eventhook.TenantID
	id     eventhook.EventID
}

// concluded is an event that concludeEventsSQL ended.
type concluded struct {
	eventKey
	status eventhook.EventStatus
}

// encodeEventKeys encodes events for lockEventsSQL and concludeEventsSQL, each once and
// in the order of their ids.
func encodeEventKeys(c *columns, events []eventKey) {
	c.reset()
	slices.SortFunc(events, func(x, y eventKey) int { return bytes.Compare(x.id[:], y.id[:]) })
	for _, e := range slices.Compact(events) {
		first, last := eventhook.DeliveryIDRange(e.id)
		c.uuid(concludeTenant, e.tenant)
		c.uuid(concludeID, e.id)
		c.uuid(concludeFirstID, first)
		c.uuid(concludeLastID, last)
	}
}

// queueLockEvents queues lockEventsSQL for the events of encodeEventKeys.
func queueLockEvents(b *pgconn.Batch, c *columns) {
	batchSender(b)(lockEventsSQL, c)
}

// queueConcludeEvents queues concludeEventsSQL for the events of encodeEventKeys. The
// transaction must hold the locks of these events.
func queueConcludeEvents(b *pgconn.Batch, c *columns, now time.Time) {
	c.moment(concludeNow, now)
	batchSender(b)(concludeEventsSQL, c)
}

// readConcluded reads the result of concludeEventsSQL.
func readConcluded(rows [][][]byte) (list []concluded) {
	for _, row := range rows {
		list = append(list, concluded{eventKey{eventhook.TenantID(row[0]), eventhook.EventID(row[1])}, eventhook.EventStatus(row[2])})
	}
	return list
}

// notifyConcluded notifies the watchers of events that were ended. Call it after the
// commit.
func (db *DB) notifyConcluded(list []concluded) {
	if len(list) == 0 || db.feed.isUnwatched() {
		return
	}
	now := db.now()
	for _, e := range list {
		db.feed.eventsChanged(now, e.tenant, e.id)
	}
}
