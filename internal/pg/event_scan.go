package pg

import (
	"context"
	"encoding/hex"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/eventhook/eventhook"
)

// eventTraceSQL is the condition for a trace id. An event without a trace id of its own
// has the id of the event whose payload it has: see Event.Trace.
const eventTraceSQL = ` AND (e.trace_id = @trace OR e.trace_id IS NULL AND coalesce(e.payload_of, e.id) = @trace_event)`

// eventScopeSQL is the condition for a scope. The envelope of an event that a route
// published is in its row, and the envelope of other published events is with their payload.
const eventScopeSQL = ` AND CASE WHEN e.source_id IS NULL
    THEN coalesce(e.envelope, (SELECT p.envelope FROM eventhook.event_payload p WHERE p.event_id = coalesce(e.payload_of, e.id)))->>'scope' = @event_scope END`

// unindexed returns the conditions of the filters that no index serves, and adds their
// parameters: @trace, @trace_event, @request, @correlation, @event_scope.
func (l *eventList) unindexed(f eventhook.EventFilter) (sql string) {
	if f.TraceID != "" {
		l.args["trace"], l.args["trace_event"] = f.TraceID, traceEvent(f.TraceID)
		sql += eventTraceSQL
	}
	if f.RequestID != "" {
		l.args["request"] = f.RequestID
		sql += ` AND e.request_id = @request`
	}
	if f.CorrelationID != "" {
		l.args["correlation"] = f.CorrelationID
		sql += ` AND e.correlation_id = @correlation`
	}
	if f.Scope != "" {
		l.args["event_scope"] = f.Scope
		sql += eventScopeSQL
	}
	return sql
}

// traceEvent returns the id of the event from which a trace id may be derived.
func traceEvent(trace string) (id [16]byte) {
	if raw, err := hex.DecodeString(trace); err == nil && len(raw) == len(id) {
		copy(id[:], raw)
	}
	return id
}

// firstOfTrace returns a bound for the ids of the events of a trace: if the trace id is
// derived from the id of an event, the trace has no older event. Clocks of instances and
// clients may differ. It returns zero if there is no bound.
func firstOfTrace(trace string) (id eventhook.EventID) {
	const clockDifference = time.Hour
	const version7 = 7
	if at := eventhook.EventID(traceEvent(trace)); at[6]>>4 == version7 && at.Time().Unix() > int64(clockDifference/time.Second) {
		return eventhook.FirstID[eventhook.Event](at.Time().Add(-clockDifference))
	}
	return id
}

// ScanEvents lists events, newest first, without their payloads: those of one tenant, or
// of all tenants if tenant is zero. It examines a limited number of events for a limited
// time, and may return fewer events than f.Limit although more match; Next continues.
func (db *DB) ScanEvents(ctx context.Context, tenant eventhook.TenantID, f eventhook.EventFilter) (eventhook.EventScan, error) {
	found, err := db.scanEvents(ctx, tenant, f, listScan)
	return found, translate("list events", err)
}

func (db *DB) scanEvents(ctx context.Context, tenant eventhook.TenantID, f eventhook.EventFilter,
	limits scanLimits) (found eventhook.EventScan, err error) {
	err = db.list(ctx, func(ctx context.Context, lists *listPool) error {
		found, err = lists.scanEvents(ctx, tenant, f, scan{scanLimits: limits, limit: f.Limit, now: db.now})
		return err
	})
	return found, err
}

func (p *listPool) scanEvents(ctx context.Context, tenant eventhook.TenantID, f eventhook.EventFilter,
	s scan) (found eventhook.EventScan, err error) {
	sources, err := p.sourcesNamed(ctx, tenant, f)
	if err != nil || f.Status != "" && statusSQL[f.Status] == "" || f.Source != "" && len(sources) == 0 {
		return found, err
	}
	l := newEventScan(tenant, sources, f)
	from, before := l.args["from"].([16]byte), l.args["before"].([16]byte) //nolint:forcetypeassert // set by newEventList
	if tenant.IsZero() {
		s.window = firstWindow
	}
	sql := scanRows{"event", "e", l.where, l.matches}.sql(tenant.IsZero())
	s.read = func(ctx context.Context, from, before [16]byte, rows int) (scanStep, error) {
		l.args["from"], l.args["before"], l.args["rows"] = from, before, rows
		return p.readScanStep(ctx, sql, l.args)
	}
	out, err := s.run(ctx, from, before)
	if err != nil {
		return found, err
	}
	found.Scanned, found.Next = out.examined, out.next
	found.Events, err = p.eventsByKey(ctx, out.rows)
	return found, err
}

// newEventScan returns the list of a filter with all conditions that its index does not
// serve in matches. sources are the ids of the sources with the slug f.Source.
func newEventScan(tenant eventhook.TenantID, sources []eventhook.SourceID, f eventhook.EventFilter) eventList {
	from, before := idRange(f)
	l := eventList{args: pgx.StrictNamedArgs{"tenant": [16]byte(tenant), "from": [16]byte(from), "before": [16]byte(before)}}
	key := f.IdempotencyKey
	if f.IdempotencyKey = ""; len(sources) == 1 && !tenant.IsZero() {
		l.scan(sources[0], f)
		sources = nil
	} else {
		l.scan(eventhook.SourceID{}, f)
	}
	if len(sources) > 0 {
		l.args["sources"] = uuids(sources)
		l.matches += ` AND e.source_id = ANY(@sources)`
	}
	if key != "" {
		l.args["key"] = key
		l.matches += ` AND e.idempotency_key = @key`
	}
	if tenant.IsZero() {
		delete(l.args, "tenant")
		l.where, l.matches = strings.ReplaceAll(l.where, `@tenant`, `t.id`), strings.ReplaceAll(l.matches, `@tenant`, `t.id`)
	}
	return l
}

// sourcesNamed returns the ids of the sources that a filter names: by id, or by their
// slug, which several tenants may use.
func (p *listPool) sourcesNamed(ctx context.Context, tenant eventhook.TenantID, f eventhook.EventFilter) ([]eventhook.SourceID, error) {
	if f.Source == "" {
		if f.SourceID.IsZero() {
			return nil, nil
		}
		return []eventhook.SourceID{f.SourceID}, nil
	}
	rows, err := p.Query(ctx, `SELECT id FROM eventhook.source
		WHERE slug = $1 AND ($2::uuid IS NULL OR tenant_id = $2) AND ($3::uuid IS NULL OR id = $3)`, f.Source, uuidArg(tenant), uuidArg(f.SourceID))
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(r pgx.CollectableRow) (id eventhook.SourceID, err error) { return id, r.Scan((*[16]byte)(&id)) })
}

// eventsByKeySQL reads events by their primary keys.
const eventsByKeySQL = `
SELECT ` + eventColumns + ` FROM unnest($1::uuid[], $2::uuid[]) AS u (tenant_id, id)
JOIN eventhook.event e ON e.tenant_id = u.tenant_id AND e.id = u.id LEFT JOIN eventhook.source s ON s.id = e.source_id
ORDER BY e.id DESC`

func (p *listPool) eventsByKey(ctx context.Context, keys []rowKey) ([]eventhook.Event, error) {
	if len(keys) == 0 {
		return nil, nil
	}
	tenants, ids := keysOf(keys)
	rows, err := p.Query(ctx, eventsByKeySQL, tenants, ids)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, scanEvent)
}
