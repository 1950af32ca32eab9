package pg

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/eventhook/eventhook"
)

const selectEventsSQL = `
SELECT e.id, e.tenant_id, e.source_id, coalesce(s.slug, ''), e.origin, e.status, e.event_type, coalesce(e.idempotency_key, ''),
    e.duplicate_of, e.content_type, e.body_size, e.retry_count, CASE WHEN e.status = 'failed' THEN e.due_at END,
    coalesce(e.last_error, ''), coalesce(e.source_ip, ''), coalesce(e.trace_id, replace(e.id::text, '-', '')),
    coalesce(e.request_id, ''), coalesce(e.correlation_id, ''), e.processed_at
FROM eventhook.event e LEFT JOIN eventhook.source s ON s.id = e.source_id
WHERE e.tenant_id = $1`

// listEventsSQL reads the primary key backwards; the id bounds prune partitions.
const listEventsSQL = selectEventsSQL + `
  AND ($2 = '' OR s.slug = $2) AND ($3 = '' OR e.status = $3) AND ($4 = '' OR e.event_type = $4)
  AND ($5 = '' OR e.idempotency_key = $5) AND e.id >= $6 AND e.id < $7
ORDER BY e.id DESC LIMIT $8`

// Events lists a tenant's events, newest first, without their payloads.
func (db *DB) Events(ctx context.Context, tenant eventhook.TenantID, f eventhook.EventFilter) ([]eventhook.Event, error) {
	var from eventhook.EventID
	if !f.ReceivedAfter.IsZero() {
		from = eventhook.FirstID[eventhook.Event](f.ReceivedAfter.Add(time.Millisecond))
	}
	to := f.Before
	if to.IsZero() {
		for i := range to {
			to[i] = 0xff
		}
	}
	if !f.ReceivedBefore.IsZero() {
		if bound := eventhook.FirstID[eventhook.Event](f.ReceivedBefore); string(bound[:]) < string(to[:]) {
			to = bound
		}
	}
	rows, err := db.lists.Query(ctx, listEventsSQL, [16]byte(tenant), f.Source, string(f.Status), f.EventType, f.IdempotencyKey,
		[16]byte(from), [16]byte(to), f.Limit)
	if err != nil {
		return nil, translate("list events", err)
	}
	list, err := pgx.CollectRows(rows, scanEvent)
	return list, translate("list events", err)
}

// Event returns one of the tenant's events, without its payload, or
// KindNotFound. Primary key.
func (db *DB) Event(ctx context.Context, tenant eventhook.TenantID, id eventhook.EventID) (eventhook.Event, error) {
	rows, err := db.work.Query(ctx, selectEventsSQL+` AND e.id = $2`, [16]byte(tenant), [16]byte(id))
	if err != nil {
		return eventhook.Event{}, translate("read event", err)
	}
	e, err := pgx.CollectExactlyOneRow(rows, scanEvent)
	return e, translate("read event", notFound(err, "event"))
}

func scanEvent(row pgx.CollectableRow) (e eventhook.Event, err error) {
	var origin, status string
	var source, original *[16]byte
	err = row.Scan((*[16]byte)(&e.ID), (*[16]byte)(&e.TenantID), &source, &e.SourceSlug, &origin, &status, &e.EventType, &e.IdempotencyKey,
		&original, &e.ContentType, &e.BodySize, &e.RetryCount, &e.NextRetryAt,
		&e.LastError, &e.SourceIP, &e.TraceID, &e.RequestID, &e.CorrelationID, &e.ProcessedAt)
	e.Origin, e.Status = eventhook.Origin(origin), eventhook.EventStatus(status)
	if source != nil {
		e.SourceID = *source
	}
	if original != nil {
		e.DuplicateOf = *original
	}
	return e, err
}

// Actions lists what routes did with an event, in the order in which they
// were started. Primary key.
func (db *DB) Actions(ctx context.Context, id eventhook.EventID) ([]eventhook.Action, error) {
	rows, err := db.work.Query(ctx, `SELECT id, event_id, route_id, route_name, target_index, target_type, status, attempts,
		execution_id, promise_id, published_event_id, coalesce(error_message, ''), started_at, completed_at
		FROM eventhook.event_action WHERE event_id = $1 ORDER BY started_at, route_id, target_index`, [16]byte(id))
	if err != nil {
		return nil, translate("list actions", err)
	}
	list, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) (a eventhook.Action, err error) {
		var status string
		var execution, promise, published *[16]byte
		err = r.Scan((*[16]byte)(&a.ID), (*[16]byte)(&a.EventID), (*[16]byte)(&a.RouteID), &a.RouteName, &a.TargetIndex, &a.TargetType,
			&status, &a.Attempts, &execution, &promise, &published, &a.ErrorMessage, &a.StartedAt, &a.CompletedAt)
		a.Status = eventhook.ActionStatus(status)
		if execution != nil {
			a.ExecutionID = *execution
		}
		if promise != nil {
			a.PromiseID = *promise
		}
		if published != nil {
			a.PublishedEventID = *published
		}
		return a, err
	})
	return list, translate("list actions", err)
}
