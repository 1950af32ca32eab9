package pg

import (
	"context"
	"maps"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/eventhook/eventhook"
)

// Reasons for which an event is not processed again.
const (
	skippedNotFound = "the tenant has no such event"
	skippedNoSource = "it did not come from a source, or its source is deleted: no routes apply"
	skippedNotFinal = "it is not final yet"
	skippedNoBody   = "its payload is past the retention period"
	skippedTooLarge = "the payloads before it have reached the limit of one request; process it again in another request"
)

// maxCopiedBytes limits the payloads that one call copies. The last may exceed it.
const maxCopiedBytes = 256 << 20

// repeatableSQL finds the events of @ids, and says in reason why one cannot be processed again.
// Primary keys.
const repeatableSQL = `
WITH found AS MATERIALIZED (
    SELECT u.n, u.id AS asked, e.*, coalesce(e.payload_of, e.id) AS payload_id, p.event_id IS NOT NULL AS has_payload, s.id IS NOT NULL AS has_source,
        length(p.headers) + length(p.body) AS bytes
    FROM unnest(@ids::uuid[]) WITH ORDINALITY AS u (id, n)
    LEFT JOIN eventhook.event e ON e.tenant_id = @tenant AND e.id = u.id
    LEFT JOIN eventhook.event_payload p ON p.event_id = coalesce(e.payload_of, e.id)
    LEFT JOIN eventhook.source s ON s.id = e.source_id
), checked AS MATERIALIZED (
    SELECT f.*, CASE WHEN id IS NULL THEN @not_found WHEN NOT has_source THEN @no_source
        WHEN status NOT IN ('dead', 'unrouted', 'delivered', 'duplicate') THEN @not_final WHEN NOT has_payload THEN @no_body END AS reason
    FROM found f
)`

// repeatableArgs are the parameters of repeatableSQL.
func repeatableArgs(tenant eventhook.TenantID, ids []eventhook.EventID) pgx.StrictNamedArgs {
	return pgx.StrictNamedArgs{"tenant": [16]byte(tenant), "ids": uuids(ids),
		"not_found": skippedNotFound, "no_source": skippedNoSource, "not_final": skippedNotFinal, "no_body": skippedNoBody}
}

// SelectAgain returns the ids of the selected events, each once, and the events among them
// that can be processed again, with the sizes of their payloads. A selection by filter
// includes dead, delivered and unrouted events unless it names statuses.
func (db *DB) SelectAgain(ctx context.Context, tenant eventhook.TenantID,
	selection eventhook.EventSelection) (ids []eventhook.EventID, repeatable []eventhook.RepeatableEvent, err error) {
	ids, err = db.selectEvents(ctx, tenant, selection,
		[]eventhook.EventStatus{eventhook.EventDead, eventhook.EventDelivered, eventhook.EventUnrouted})
	if err != nil || len(ids) == 0 {
		return nil, nil, translate("select events", err)
	}
	ids = withoutRepetitions(ids)
	rows, err := db.lists.Query(ctx, repeatableSQL+` SELECT asked, bytes FROM checked WHERE reason IS NULL ORDER BY n`,
		repeatableArgs(tenant, ids))
	if err != nil {
		return nil, nil, translate("select events", err)
	}
	repeatable, err = pgx.CollectRows(rows, func(r pgx.CollectableRow) (e eventhook.RepeatableEvent, err error) {
		return e, r.Scan((*[16]byte)(&e.ID), &e.Bytes)
	})
	return ids, repeatable, translate("select events", err)
}

// copyEventsSQL stores for each event of @ids a new event with a copy of its payload and
// the id of the same place in @new_ids, due now. A copy, and not a reference to the payload, because
// payloads are dropped by day. It reads the payloads in the same transaction: until the
// commit, no partition that it has read is dropped. Nothing of the original event changes,
// so it takes no locks. It returns why it did not copy an event, or NULL. Primary keys.
const copyEventsSQL = repeatableSQL + `, sized AS MATERIALIZED (
    SELECT c.*, (@new_ids::uuid[])[n] AS new_id, sum(CASE WHEN reason IS NULL THEN body_size::bigint ELSE 0 END) OVER (ORDER BY n) - body_size AS before FROM checked c
), chosen AS MATERIALIZED (
    SELECT * FROM sized WHERE reason IS NULL AND before < @max_bytes
), stored AS (
    INSERT INTO eventhook.event (id, tenant_id, source_id, due_at, body_size, status, origin, event_type, content_type, idempotency_key, source_ip,
        trace_id, request_id, correlation_id, reprocessed_from)
    SELECT new_id, tenant_id, source_id, @now::timestamptz, body_size, 'pending', origin, event_type, content_type, idempotency_key, source_ip,
        coalesce(trace_id, replace(payload_id::text, '-', '')), request_id, correlation_id, id
    FROM chosen
), bodies AS (
    INSERT INTO eventhook.event_payload (event_id, headers, body, envelope)
    SELECT c.new_id, p.headers, p.body, p.envelope FROM chosen c JOIN eventhook.event_payload p ON p.event_id = c.payload_id
)
SELECT s.asked, s.new_id, CASE WHEN s.reason IS NULL AND s.before >= @max_bytes THEN @too_large ELSE s.reason END FROM sized s ORDER BY s.n`

// ReprocessAgain stores a new event with the payload of each event, to be routed by the
// current routes: in any final status, so that the work of an event that succeeded is
// repeated. The new events have the trace of the old ones, which do not change. The change and
// its audit entry are one transaction.
func (db *DB) ReprocessAgain(ctx context.Context, by eventhook.Actor, tenant eventhook.TenantID,
	ids []eventhook.EventID) (copies eventhook.EventCopies, err error) {
	if len(ids) == 0 {
		return copies, nil
	}
	err = db.mutate(ctx, "reprocess events again", by, tenant, func(m *mutation) (err error) {
		if copies, err = db.copyEvents(ctx, m.tx, tenant, ids); err != nil || len(copies.IDs) == 0 {
			return err
		}
		return recordBulk(m, "events.reprocessed_again", "event", "events", copies.IDs)
	})
	if err != nil {
		return eventhook.EventCopies{}, err
	}
	if len(copies.IDs) > 0 {
		db.WakeEvents()
		db.feed.eventsChanged(db.now(), tenant, copies.IDs...)
	}
	return copies, nil
}

func (db *DB) copyEvents(ctx context.Context, tx pgx.Tx, tenant eventhook.TenantID,
	events []eventhook.EventID) (copies eventhook.EventCopies, err error) {
	now := db.now()
	args := repeatableArgs(tenant, events)
	maps.Copy(args, pgx.StrictNamedArgs{"new_ids": uuids(newIDsInOrder[eventhook.Event](now, len(events))), "now": now,
		"max_bytes": int64(maxCopiedBytes), "too_large": skippedTooLarge})
	rows, err := tx.Query(ctx, copyEventsSQL, args)
	if err != nil {
		return copies, err
	}
	var asked, created eventhook.EventID
	var reason *string
	_, err = pgx.ForEachRow(rows, []any{(*[16]byte)(&asked), (*[16]byte)(&created), &reason}, func() error {
		if reason == nil {
			copies.IDs = append(copies.IDs, created)
		} else {
			copies.Skipped = append(copies.Skipped, eventhook.SkippedEvent{ID: asked, Reason: *reason})
		}
		return nil
	})
	return copies, err
}

// withoutRepetitions returns the ids, each once, in their order.
func withoutRepetitions(ids []eventhook.EventID) []eventhook.EventID {
	seen := make(map[eventhook.EventID]bool, len(ids))
	return slices.DeleteFunc(slices.Clone(ids), func(id eventhook.EventID) bool {
		isRepeated := seen[id]
		seen[id] = true
		return isRepeated
	})
}
