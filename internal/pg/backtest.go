package pg

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/eventhook/eventhook"
)

// routedColumns are what a source's routes look at, as claiming an event hands
// it to them: without the texts that stand in for what it has not.
const routedColumns = `e.id, e.tenant_id, e.source_id, coalesce(s.slug, ''), e.origin, e.status, e.event_type, e.content_type, e.body_size,
    coalesce(e.idempotency_key, ''), coalesce(e.source_ip, ''), coalesce(e.trace_id, ''), coalesce(e.request_id, '')`

func scanRouted(row pgx.CollectableRow) (*eventhook.Event, error) {
	e := &eventhook.Event{}
	var source *[16]byte
	var origin, status string
	err := row.Scan((*[16]byte)(&e.ID), (*[16]byte)(&e.TenantID), &source, &e.SourceSlug, &origin, &status, &e.EventType, &e.ContentType, &e.BodySize,
		&e.IdempotencyKey, &e.SourceIP, &e.TraceID, &e.RequestID)
	e.Origin, e.Status = eventhook.Origin(origin), eventhook.EventStatus(status)
	if source != nil {
		e.SourceID = *source
	}
	return e, err
}

// routedEventSQL reads the primary keys.
const routedEventSQL = `SELECT ` + routedColumns + `
FROM eventhook.event e LEFT JOIN eventhook.source s ON s.id = e.source_id
WHERE e.tenant_id = $1 AND e.id = $2`

// RoutedEvent returns one of the tenant's events as routes see it, or
// KindNotFound. Without headers its payload is past its retention.
func (db *DB) RoutedEvent(ctx context.Context, tenant eventhook.TenantID, id eventhook.EventID) (*eventhook.Event, error) {
	rows, err := db.work.Query(ctx, routedEventSQL, [16]byte(tenant), [16]byte(id))
	if err != nil {
		return nil, translate("read event", err)
	}
	e, err := pgx.CollectExactlyOneRow(rows, scanRouted)
	if err != nil {
		return nil, translate("read event", notFound(err, "event"))
	}
	return e, db.readPayloads(ctx, []*eventhook.Event{e})
}

// pastBytes is how much of bodies is read at once; the last may go beyond.
const pastBytes = 8 << 20

// PastEvents returns events of a source as routes see them, newest first: those
// received after since, if that is not zero, and older than before, likewise.
// It looks at no more than limit, or fewer when their bodies are large, and
// leaves duplicates out, which routes never see. Next is where to go on, zero
// at the end. Without headers an event's payload is past its retention. The
// list by source (index event_source), then the payloads' primary key.
func (db *DB) PastEvents(ctx context.Context, tenant eventhook.TenantID, source eventhook.SourceID, since time.Time, before eventhook.EventID, limit int) (events []*eventhook.Event, next eventhook.EventID, err error) {
	list, err := readEvents(ctx, db, tenant, eventhook.EventFilter{SourceID: source, ReceivedAfter: since, Before: before, Limit: limit}, routedColumns, scanRouted)
	if err != nil {
		return nil, next, err
	}
	size := 0
	for i, e := range list {
		if e.Status != eventhook.EventDuplicate {
			events = append(events, e)
			size += e.BodySize
		}
		if size >= pastBytes || i == limit-1 {
			next = e.ID
			break
		}
	}
	return events, next, db.readPayloads(ctx, events)
}
