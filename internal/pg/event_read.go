package pg

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/eventhook/eventhook"
)

const eventColumns = `e.id, e.tenant_id, e.source_id, coalesce(s.slug, ''), e.origin, e.status, e.event_type, coalesce(e.idempotency_key, ''),
    e.duplicate_of, e.content_type, e.body_size, e.retry_count, CASE WHEN e.status = 'failed' THEN e.due_at END,
    coalesce(e.last_error, ''), coalesce(e.source_ip, ''), coalesce(e.trace_id, replace(coalesce(e.payload_of, e.id)::text, '-', '')),
    coalesce(e.request_id, ''), coalesce(e.correlation_id, ''), e.processed_at, e.payload_of`

// Events lists a tenant's events, newest first, without their payloads. The cost of each
// filter alone, and of a source with a status, does not depend on the number of events.
// A combination of filters costs as much as reading all events of the most selective one.
// An event is found by its key until the key expires.
func (db *DB) Events(ctx context.Context, tenant eventhook.TenantID, f eventhook.EventFilter) ([]eventhook.Event, error) {
	return readEvents(ctx, db, tenant, f, eventColumns, scanEvent)
}

// readEvents lists events and reads some columns of each.
func readEvents[T any](ctx context.Context, db *DB, tenant eventhook.TenantID, f eventhook.EventFilter, columns string, scan pgx.RowToFunc[T]) ([]T, error) {
	if f.Status != "" && statusSQL[f.Status] == "" {
		return nil, nil // no such status
	}
	source := f.SourceID
	if f.Source != "" {
		// Unique index on the slug.
		err := db.lists.QueryRow(ctx, `SELECT id FROM eventhook.source WHERE tenant_id = $1 AND slug = $2`, [16]byte(tenant), f.Source).Scan((*[16]byte)(&source))
		if errors.Is(err, pgx.ErrNoRows) || err == nil && !f.SourceID.IsZero() && f.SourceID != source {
			return nil, nil
		}
		if err != nil {
			return nil, translate("list events", err)
		}
	}
	list, err := readList(ctx, db, newEventList(tenant, source, f), columns, scan)
	return list, translate("list events", err)
}

// readList reads a list in one round trip. A mixed list is planned for its values at each
// call. Other lists are planned once, because planning takes longer than reading.
func readList[T any](ctx context.Context, db *DB, l eventList, columns string, scan pgx.RowToFunc[T]) ([]T, error) {
	if l.isMixed {
		rows, err := db.lists.Query(ctx, l.sql(columns), pgx.QueryExecModeCacheDescribe, l.args)
		if err != nil {
			return nil, err
		}
		return pgx.CollectRows(rows, scan)
	}
	return readPlannedOnce(ctx, db, l.sql(columns), scan, l.args)
}

// readPlannedOnce reads a list whose best plan does not depend on the values. One round
// trip.
func readPlannedOnce[T any](ctx context.Context, db *DB, sql string, scan pgx.RowToFunc[T], args ...any) ([]T, error) {
	b := &pgx.Batch{}
	b.Queue(`SET plan_cache_mode = force_generic_plan`)
	b.Queue(sql, args...)
	b.Queue(`RESET plan_cache_mode`) // after a failure, the rollback undoes the SET, too
	results := db.lists.SendBatch(ctx, b)
	defer func() { _ = results.Close() }() // reads the remaining results
	if _, err := results.Exec(); err != nil {
		return nil, err
	}
	rows, err := results.Query()
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, scan)
}

// Event returns one of the tenant's events, without its payload, or
// KindNotFound. Primary key.
func (db *DB) Event(ctx context.Context, tenant eventhook.TenantID, id eventhook.EventID) (eventhook.Event, error) {
	rows, err := db.work.Query(ctx, `SELECT `+eventColumns+`
		FROM eventhook.event e LEFT JOIN eventhook.source s ON s.id = e.source_id
		WHERE e.tenant_id = $1 AND e.id = $2`, [16]byte(tenant), [16]byte(id))
	if err != nil {
		return eventhook.Event{}, translate("read event", err)
	}
	e, err := pgx.CollectExactlyOneRow(rows, scanEvent)
	return e, translate("read event", notFound(err, "event"))
}

func scanEvent(row pgx.CollectableRow) (e eventhook.Event, err error) {
	var origin, status string
	var source, original, payload *[16]byte
	err = row.Scan((*[16]byte)(&e.ID), (*[16]byte)(&e.TenantID), &source, &e.SourceSlug, &origin, &status, &e.EventType, &e.IdempotencyKey,
		&original, &e.ContentType, &e.BodySize, &e.RetryCount, &e.NextRetryAt,
		&e.LastError, &e.SourceIP, &e.TraceID, &e.RequestID, &e.CorrelationID, &e.ProcessedAt, &payload)
	e.Origin, e.Status = eventhook.Origin(origin), eventhook.EventStatus(status)
	if source != nil {
		e.SourceID = *source
	}
	if original != nil {
		e.DuplicateOf = *original
	}
	if payload != nil {
		e.PayloadOf = *payload
	}
	return e, err
}

// Actions returns the first limit actions of an event, in the order in which its routes
// created them, and the number of all its actions. Primary keys.
func (db *DB) Actions(ctx context.Context, e *eventhook.Event, limit int) (list []eventhook.Action, count int, err error) {
	all, err := db.EventActions(ctx, []*eventhook.Event{e})
	list = all[e.ID]
	return list[:min(limit, len(list))], len(list), err
}

// routedColumns are the columns that routes evaluate, as ClaimEvents returns them:
// without the defaults that eventColumns has for missing texts.
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

// routedEventSQL reads one event. Primary keys.
const routedEventSQL = `SELECT ` + routedColumns + `
FROM eventhook.event e LEFT JOIN eventhook.source s ON s.id = e.source_id
WHERE e.tenant_id = $1 AND e.id = $2`

// RoutedEvent returns one of the tenant's events as routes see it, or KindNotFound.
// Headers are nil if its payload is past its retention.
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

// maxPastBytes limits the bodies that are read at once. The last body may exceed it.
const maxPastBytes = 8 << 20

// PastEvents returns events of a source as routes see them, newest first. It returns events
// that were received after since and precede the cursor before. The zero values of since
// and before are no bounds. PastEvents reads at most limit events, fewer if their bodies are
// large, and omits duplicates, which routes never see. next is the cursor of the next page,
// zero at the end. Headers of an
// event are nil if its payload is past its retention. Index event_source, then the
// primary key of payloads.
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
		if size >= maxPastBytes || i == limit-1 {
			next = e.ID
			break
		}
	}
	return events, next, db.readPayloads(ctx, events)
}

// Payloads returns the payloads of events, without payloads that are past their retention.
// Primary key.
func (db *DB) Payloads(ctx context.Context, events []eventhook.EventID) (map[eventhook.EventID]eventhook.Payload, error) {
	rows, err := db.work.Query(ctx, readPayloadsSQL, uuids(events))
	if err != nil {
		return nil, translate("read payloads", err)
	}
	payloads := make(map[eventhook.EventID]eventhook.Payload, len(events))
	var id eventhook.EventID
	var p eventhook.Payload
	_, err = pgx.ForEachRow(rows, []any{(*[16]byte)(&id), &p.Headers, &p.Body}, func() error {
		payloads[id] = p
		p = eventhook.Payload{}
		return nil
	})
	return payloads, translate("read payloads", err)
}
