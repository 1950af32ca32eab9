package pg

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/eventhook/eventhook"
)

const eventColumns = `e.id, e.tenant_id, e.source_id, coalesce(s.slug, ''), e.origin, e.status, e.event_type, coalesce(e.idempotency_key, ''),
    e.duplicate_of, e.content_type, e.body_size, e.retry_count, CASE WHEN e.status = 'failed' THEN e.due_at END,
    coalesce(e.last_error, ''), coalesce(e.source_ip, ''), coalesce(e.trace_id, replace(coalesce(e.payload_of, e.id)::text, '-', '')),
    coalesce(e.request_id, ''), coalesce(e.correlation_id, ''), e.processed_at, e.payload_of, e.reprocessed_from`

// Events lists a tenant's events, newest first, without their payloads. The cost of each
// filter alone, and of a source with a status, does not depend on the number of events.
// A combination of filters costs as much as reading all events of the most selective one.
// An event is found by its key until the key expires.
func (db *DB) Events(ctx context.Context, tenant eventhook.TenantID, f eventhook.EventFilter) (list []eventhook.Event, err error) {
	err = db.list(ctx, func(ctx context.Context, lists *listPool) error {
		list, err = readEvents(ctx, lists, tenant, f, eventColumns, scanEvent)
		return err
	})
	return list, err
}

// readEvents lists events and reads some columns of each.
func readEvents[T any](ctx context.Context, lists *listPool, tenant eventhook.TenantID, f eventhook.EventFilter, columns string, scan pgx.RowToFunc[T]) ([]T, error) {
	if f.Status != "" && statusSQL[f.Status] == "" {
		return nil, nil // no such status
	}
	source := f.SourceID
	if f.Source != "" {
		// Unique index on the slug.
		err := lists.QueryRow(ctx, `SELECT id FROM eventhook.source WHERE tenant_id = $1 AND slug = $2`, [16]byte(tenant), f.Source).Scan((*[16]byte)(&source))
		if errors.Is(err, pgx.ErrNoRows) || err == nil && !f.SourceID.IsZero() && f.SourceID != source {
			return nil, nil
		}
		if err != nil {
			return nil, translate("list events", err)
		}
	}
	list, err := readList(ctx, lists, newEventList(tenant, source, f), columns, scan)
	return list, translate("list events", err)
}

// readList reads a list in one round trip. A mixed list is planned for its values at each
// call. Other lists are planned once, because planning takes longer than reading.
func readList[T any](ctx context.Context, lists *listPool, l eventList, columns string, scan pgx.RowToFunc[T]) ([]T, error) {
	if l.isMixed {
		rows, err := lists.Query(ctx, l.sql(columns), pgx.QueryExecModeCacheDescribe, l.args)
		if err != nil {
			return nil, err
		}
		return pgx.CollectRows(rows, scan)
	}
	return readPlannedOnce(ctx, lists, l.sql(columns), scan, l.args)
}

// batcher is a pool or a transaction.
type batcher interface {
	SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults
}

// readPlannedOnce reads a list whose best plan does not depend on the values. One round
// trip.
func readPlannedOnce[T any](ctx context.Context, lists batcher, sql string, scan pgx.RowToFunc[T], args ...any) ([]T, error) {
	b := &pgx.Batch{}
	b.Queue(`SET plan_cache_mode = force_generic_plan`)
	b.Queue(sql, args...)
	b.Queue(`RESET plan_cache_mode`) // after a failure, the rollback undoes the SET, too
	results := lists.SendBatch(ctx, b)
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
	var source, original, payload, reprocessed *[16]byte
	err = row.Scan((*[16]byte)(&e.ID), (*[16]byte)(&e.TenantID), &source, &e.SourceSlug, &origin, &status, &e.EventType, &e.IdempotencyKey,
		&original, &e.ContentType, &e.BodySize, &e.RetryCount, &e.NextRetryAt,
		&e.LastError, &e.SourceIP, &e.TraceID, &e.RequestID, &e.CorrelationID, &e.ProcessedAt, &payload, &reprocessed)
	e.Origin, e.Status = eventhook.Origin(origin), eventhook.EventStatus(status)
	if reprocessed != nil {
		e.ReprocessedFrom = *reprocessed
	}
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
    coalesce(e.idempotency_key, ''), coalesce(e.source_ip, ''), coalesce(e.trace_id, ''), coalesce(e.request_id, ''),
    coalesce(e.correlation_id, ''), e.payload_of, e.reprocessed_from`

func scanRouted(row pgx.CollectableRow) (*eventhook.Event, error) {
	e := &eventhook.Event{}
	var source, payload, reprocessed *[16]byte
	var origin, status string
	err := row.Scan((*[16]byte)(&e.ID), (*[16]byte)(&e.TenantID), &source, &e.SourceSlug, &origin, &status, &e.EventType, &e.ContentType, &e.BodySize,
		&e.IdempotencyKey, &e.SourceIP, &e.TraceID, &e.RequestID, &e.CorrelationID, &payload, &reprocessed)
	e.Origin, e.Status = eventhook.Origin(origin), eventhook.EventStatus(status)
	if payload != nil {
		e.PayloadOf = *payload
	}
	if reprocessed != nil {
		e.ReprocessedFrom = *reprocessed
	}
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
	list, err := readEvents(ctx, db.lists, tenant, eventhook.EventFilter{SourceID: source, ReceivedAfter: since, Before: before, Limit: limit}, routedColumns, scanRouted)
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

// readPayloadStartSQL reads the beginning of one payload. Primary key.
const readPayloadStartSQL = `SELECT headers, substring(body FROM 1 FOR $2)
FROM eventhook.event_payload WHERE event_id = $1`

// PayloadStart returns the payload of an event with at most size bytes of its body. Headers is nil if
// the payload is past its retention. Of a body that is stored without compression, PostgreSQL reads
// only these bytes.
func (db *DB) PayloadStart(ctx context.Context, id eventhook.EventID, size int) (p eventhook.Payload, err error) {
	err = db.work.QueryRow(ctx, readPayloadStartSQL, [16]byte(id), size).Scan(&p.Headers, &p.Body)
	if errors.Is(err, pgx.ErrNoRows) {
		return eventhook.Payload{}, nil
	}
	return p, translate("read the beginning of a payload", err)
}

// Lists of events have named parameters: @tenant, @from (the first id), @before (the id
// after the last), @limit or @rows, and those of their filters: @source, @type, @status,
// @key, @scope, and those of unindexedSQL.

// indexPath reads a list through an index that has its events in order: columns with one
// value each, then the id between two bounds. The condition compares the columns one by
// one. For a comparison of rows, such as (a, b) >= (x, y), an index scan stops by the first
// column only, and so reads events that are not in the list.
type indexPath struct {
	columns []string // of the index, without the id
	values  []string // parameters to which the columns are equal
	extra   string   // further conditions, such as the predicate of a partial index
}

// usesListIndexes lets the planner use the indexes for lists, which no other statement
// may use; see their migration.
const usesListIndexes = ` AND e.body_size >= 0`

// ofTenant compares the tenant in an expression that no index supports.
const ofTenant = ` AND (e.tenant_id = @tenant) IS TRUE`

const tenantColumn, sourceColumn = `e.tenant_id`, `e.source_id`

var (
	byTenant       = indexPath{[]string{tenantColumn}, []string{`@tenant`}, ``}                                                                               // primary key
	byDelivered    = indexPath{byTenant.columns, byTenant.values, ` AND e.status = 'delivered'`}                                                              // primary key: most events are delivered
	bySource       = indexPath{[]string{sourceColumn}, []string{`@source`}, ofTenant + usesListIndexes}                                                       // event_source
	byType         = indexPath{[]string{tenantColumn, `e.event_type`}, []string{`@tenant`, `@type`}, usesListIndexes}                                         // event_type_list
	byStatus       = indexPath{[]string{tenantColumn, `e.status`}, []string{`@tenant`, `@status`}, usesListIndexes + exceptional}                             // event_status
	bySourceStatus = indexPath{[]string{sourceColumn, `e.status`}, []string{`@source`, `@status`}, ofTenant + usesListIndexes + exceptional}                  // event_source_status
	byDuplicate    = indexPath{[]string{tenantColumn, `e.idempotency_key`}, []string{`@tenant`, `@key`}, usesListIndexes + ` AND e.duplicate_of IS NOT NULL`} // event_duplicate
)

// statusSQL has each status as an SQL constant. The planner uses a partial index on
// statuses only for constants.
var statusSQL = func() map[eventhook.EventStatus]string {
	all := map[eventhook.EventStatus]string{}
	for _, s := range eventhook.EventStatuses {
		all[s] = `'` + string(s) + `'`
	}
	return all
}()

// exceptional is the predicate of the partial indexes on statuses.
const exceptional = ` AND e.status IN ('failed', 'dead', 'unrouted', 'duplicate')`

// isExceptional reports whether the partial indexes contain events with a status.
func isExceptional(s eventhook.EventStatus) bool {
	return s != "" && strings.Contains(exceptional, statusSQL[s])
}

// where returns the condition. The bounds of the id prune partitions.
//
// Another index also has the first column and the order of the list, but a scan of it
// reads all events that the other columns exclude. To keep the planner from choosing that
// index, the condition compares each further column three times. The planner takes these
// for independent conditions: it expects that very few events satisfy all of them, and
// that a scan of the other index takes long to find these.
func (p indexPath) where() string {
	sql := `e.id >= @from AND e.id < @before`
	for i, column := range p.columns {
		sql += ` AND ` + column + ` = ` + p.values[i]
		if i > 0 {
			sql += ` AND ` + column + ` >= ` + p.values[i] + ` AND ` + column + ` <= ` + p.values[i]
		}
	}
	return sql + p.extra
}

const newestEventsFirst = `e.id DESC`

// eventList is the statement of a list, built of constant parts, and its parameters.
type eventList struct {
	with, from, where, order string
	matches                  string // further conditions, which no index serves
	args                     pgx.StrictNamedArgs

	// isMixed is set for a combination of filters that has no index. The best index then
	// depends on the values, so the planner must see them.
	isMixed bool
}

// newEventList returns the list for a filter whose source has the id source, zero for
// any. The list of a filter that needs a scan has its conditions in matches.
func newEventList(tenant eventhook.TenantID, source eventhook.SourceID, f eventhook.EventFilter) eventList {
	from, before := idRange(f)
	l := eventList{from: `eventhook.event e`, args: pgx.StrictNamedArgs{"tenant": [16]byte(tenant), "from": [16]byte(from), "before": [16]byte(before), "limit": f.Limit}}
	hasSource, hasType, hasStatus := !source.IsZero(), f.EventType != "", f.Status != ""
	switch {
	case f.NeedsScan():
		l.scan(source, f)
	case f.IdempotencyKey != "":
		l.byKey(source, f)
	case hasSource && !hasType && isExceptional(f.Status):
		l.use(bySourceStatus)
		l.args["source"], l.args["status"] = [16]byte(source), string(f.Status)
	case hasSource && !hasType && !hasStatus:
		l.use(bySource)
		l.args["source"] = [16]byte(source)
	case hasType && !hasSource && !hasStatus:
		l.use(byType)
		l.args["type"] = f.EventType
	case isExceptional(f.Status) && !hasSource && !hasType:
		l.use(byStatus)
		l.args["status"] = string(f.Status)
	case !hasSource && !hasType && !hasStatus:
		l.use(byTenant)
	case f.Status == eventhook.EventDelivered && !hasSource && !hasType:
		l.use(byDelivered)
	default:
		l.isMixed = true
		l.where = `e.tenant_id = @tenant AND e.id >= @from AND e.id < @before` + usesListIndexes + l.filters(source, f)
		l.order = newestEventsFirst
	}
	return l
}

// sql returns the statement that reads columns of the events and of their sources.
func (l eventList) sql(columns string) string {
	if l.matches != "" {
		l.where += ` AND ` + l.matches
	}
	return l.with + `SELECT ` + columns + ` FROM ` + l.from + ` LEFT JOIN eventhook.source s ON s.id = e.source_id
WHERE ` + l.where + `
ORDER BY ` + l.order + ` LIMIT @limit`
}

// scan selects the index that leaves the fewest events to examine.
func (l *eventList) scan(source eventhook.SourceID, f eventhook.EventFilter) {
	_, isPattern := eventhook.TypePrefix(f.EventType)
	hasType := f.EventType != "" && !isPattern
	switch {
	case isExceptional(f.Status) && !source.IsZero():
		l.use(bySourceStatus)
		l.args["source"], l.args["status"] = [16]byte(source), string(f.Status)
		f.Status, source = "", eventhook.SourceID{}
	case isExceptional(f.Status):
		l.use(byStatus)
		l.args["status"], f.Status = string(f.Status), ""
	case !source.IsZero():
		l.use(bySource)
		l.args["source"], source = [16]byte(source), eventhook.SourceID{}
	case hasType:
		l.use(byType)
		l.args["type"], f.EventType = f.EventType, ""
	default:
		l.use(byTenant)
	}
	l.matches = `true` + l.filters(source, f)
}

func (l *eventList) use(p indexPath) { l.where, l.order = p.where(), newestEventsFirst }

// filters returns the conditions of the filters that are set, and adds their parameters.
func (l *eventList) filters(source eventhook.SourceID, f eventhook.EventFilter) (sql string) {
	if !source.IsZero() {
		l.args["source"] = [16]byte(source)
		sql += ` AND e.source_id = @source`
	}
	if prefix, isPattern := eventhook.TypePrefix(f.EventType); isPattern {
		l.args["type"] = prefix
		sql += ` AND starts_with(e.event_type, @type)`
	} else if f.EventType != "" {
		l.args["type"] = f.EventType
		sql += ` AND e.event_type = @type`
	}
	sql += l.unindexed(f)
	switch f.Status {
	case "":
	case eventhook.EventPending, eventhook.EventProcessing: // index event_due contains these
		sql += ` AND e.due_at IS NOT NULL AND e.status = ` + statusSQL[f.Status]
	default:
		sql += ` AND e.status = ` + statusSQL[f.Status]
	}
	return sql
}

// byKey finds the events with a key through idempotency_key, in any scope, and their
// duplicates through index event_duplicate. An index on the keys of all events would cost
// more than all other indexes together, since keys are inserted in random order.
func (l *eventList) byKey(source eventhook.SourceID, f eventhook.EventFilter) {
	l.args["key"] = f.IdempotencyKey
	scope, rest := ``, l.filters(eventhook.SourceID{}, f)
	if !source.IsZero() {
		l.args["scope"], l.args["source"] = source.String(), [16]byte(source)
		scope = ` AND scope = @scope`
		rest += ` AND (e.source_id = @source) IS TRUE` // an expression that event_source does not support
	}
	l.with = `WITH keys AS MATERIALIZED (
    SELECT made FROM eventhook.idempotency_key WHERE tenant_id = @tenant AND key = @key` + scope + `
), found AS MATERIALIZED (
    SELECT e.id FROM keys k JOIN eventhook.event e ON e.tenant_id = @tenant AND e.id = k.made
    WHERE e.id >= @from AND e.id < @before AND e.idempotency_key = @key` + rest + `
    UNION ALL
    (SELECT e.id FROM eventhook.event e WHERE ` + byDuplicate.where() + rest + ` ORDER BY ` + newestEventsFirst + ` LIMIT @limit)
)
`
	l.from = `found JOIN eventhook.event e ON e.tenant_id = @tenant AND e.id = found.id`
	l.where, l.order = `true`, newestEventsFirst
}

// idRange returns the range of ids that the times and the cursor of a filter allow: from
// is the first, before is the one after the last.
func idRange(f eventhook.EventFilter) (from, before eventhook.EventID) {
	if !f.ReceivedAfter.IsZero() {
		from = eventhook.FirstID[eventhook.Event](f.ReceivedAfter.Add(time.Millisecond))
	}
	if first := firstOfTrace(f.TraceID); bytes.Compare(from[:], first[:]) < 0 {
		from = first
	}
	before = f.Before
	if before.IsZero() {
		for i := range before {
			before[i] = 0xff
		}
	}
	if !f.ReceivedBefore.IsZero() {
		if bound := eventhook.FirstID[eventhook.Event](f.ReceivedBefore); string(bound[:]) < string(before[:]) {
			before = bound
		}
	}
	return from, before
}
