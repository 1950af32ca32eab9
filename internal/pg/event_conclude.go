package pg

import (
	"bytes"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/eventhook/eventhook"
)

// An event is processing with due_at NULL while deliveries to targets of its routes
// are open: no one may claim it, and its state follows from these deliveries. Two
// kinds of transactions change that state:
//
//   - a settle of deliveries updates the deliveries, then locks their events
//     (lockEventsSQL), then concludes them (concludeEventsSQL);
//   - a settle of events updates the events, then writes their deliveries, then
//     concludes the events that it leaves processing with due_at NULL.
//
// Each of these is a statement of its own, in this order, in one transaction. In READ
// COMMITTED every statement has its own snapshot, and so no interleaving leaves an
// event processing with no delivery open:
//
//   - Of two settles of deliveries, the second waits at lockEventsSQL for the first
//     to commit. Its concludeEventsSQL begins after that and sees both deliveries.
//     In one statement, the snapshot would be older than the wait, and neither
//     transaction would see the delivery of the other.
//   - If a settle of deliveries locks the event before the settle of events updates
//     it, the first finds the event still leased and leaves it; the second waits for
//     the first, and its concludeEventsSQL sees the settled delivery.
//   - If the settle of events is first, the settle of deliveries waits at
//     lockEventsSQL, and its concludeEventsSQL sees the event as it was left. For
//     this, lockEventsSQL must lock the event whatever its state seems to be.
//
// Lock order: deliveries, then events by id. A settle of events has its events
// before its deliveries; where both wait for each other, PostgreSQL ends one with a
// deadlock, and it is made again.

// lockEventsSQL locks events in the order of their ids, in any state. Primary key,
// one partition each.
var lockEventsSQL = newStatement("lock_events", `
SELECT FROM @events(tenant_id uuid, id uuid)
JOIN eventhook.event e ON e.tenant_id = events.tenant_id AND e.id = events.id
ORDER BY e.id FOR UPDATE OF e`)

// concludeEventsSQL ends events whose state follows from the deliveries of their
// routes: dead if one of these is dead, delivered if none is open. The ids of an event's
// deliveries lie between least and greatest. It returns the events that it ended.
// Primary keys, one partition each.
var concludeEventsSQL = lockEventsSQL.extend("conclude_events", `
UPDATE eventhook.event e
SET status = CASE WHEN s.dead THEN 'dead' ELSE 'delivered' END, processed_at = @now::timestamptz, last_error = s.error
FROM @events(tenant_id uuid, id uuid, least uuid, greatest uuid)
CROSS JOIN LATERAL (
    SELECT coalesce(bool_or(d.status = 'dead'), false) AS dead, coalesce(bool_or(d.status NOT IN ('success', 'dead')), false) AS open,
        (array_agg('target ' || d.target_index + 1 || ': ' || d.last_error ORDER BY d.completed_at, d.id) FILTER (WHERE d.status = 'dead'))[1] AS error
    FROM eventhook.delivery d
    WHERE d.tenant_id = events.tenant_id AND d.id >= events.least AND d.id <= events.greatest AND d.event_id = events.id AND d.route_id IS NOT NULL
) s
WHERE e.tenant_id = events.tenant_id AND e.id = events.id AND e.status = 'processing' AND e.due_at IS NULL AND (s.dead OR NOT s.open)
RETURNING e.tenant_id, e.id, e.status`)

// Parameters of lockEventsSQL and concludeEventsSQL.
var (
	concludeTenant   = lockEventsSQL.uuid("events.tenant_id")
	concludeID       = lockEventsSQL.uuid("events.id")
	concludeLeast    = concludeEventsSQL.uuid("events.least")
	concludeGreatest = concludeEventsSQL.uuid("events.greatest")
	concludeNow      = concludeEventsSQL.moment("now")
)

// eventKey is the primary key of an event.
type eventKey struct {
	tenant eventhook.TenantID
	id     eventhook.EventID
}

// concluded is an event that concludeEventsSQL has ended.
type concluded struct {
	eventKey
	status eventhook.EventStatus
}

// encodeEventKeys puts the events into columns of concludeEventsSQL, each once and in
// the order of their ids.
func encodeEventKeys(c *columns, events []eventKey) {
	c.reset()
	slices.SortFunc(events, func(x, y eventKey) int { return bytes.Compare(x.id[:], y.id[:]) })
	for _, e := range slices.Compact(events) {
		least, greatest := eventhook.DeliveryIDRange(e.id)
		c.uuid(concludeTenant, e.tenant)
		c.uuid(concludeID, e.id)
		c.uuid(concludeLeast, least)
		c.uuid(concludeGreatest, greatest)
	}
}

// queueLockEvents adds lockEventsSQL with columns that encodeEventKeys has filled.
func queueLockEvents(b *pgconn.Batch, c *columns) {
	batchSender(b)(lockEventsSQL, c)
}

// queueConcludeEvents adds concludeEventsSQL with columns that encodeEventKeys has
// filled. The transaction must hold the events' locks.
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

// notifyConcluded tells watchers, after the commit, of events that were ended.
func (db *DB) notifyConcluded(list []concluded) {
	if len(list) == 0 || db.feed.isUnwatched() {
		return
	}
	now := db.now()
	for _, e := range list {
		db.feed.eventsChanged(now, e.tenant, e.id)
	}
}
