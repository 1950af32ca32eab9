package pg

import (
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/eventhook/eventhook"
)

// Lists of events have named parameters: @tenant, @from (the first id), @before (the id
// after the last), @limit, and those of their filters: @source, @type, @status, @key,
// @scope.

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
	args                     pgx.StrictNamedArgs

	// isMixed is set for a combination of filters that has no index. The best index then
	// depends on the values, so the planner must see them.
	isMixed bool
}

// newEventList returns the list for a filter whose source has the id source, zero for
// any.
func newEventList(tenant eventhook.TenantID, source eventhook.SourceID, f eventhook.EventFilter) eventList {
	from, before := idRange(f)
	l := eventList{from: `eventhook.event e`, args: pgx.StrictNamedArgs{"tenant": [16]byte(tenant), "from": [16]byte(from), "before": [16]byte(before), "limit": f.Limit}}
	hasSource, hasType, hasStatus := !source.IsZero(), f.EventType != "", f.Status != ""
	switch {
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
	return l.with + `SELECT ` + columns + ` FROM ` + l.from + ` LEFT JOIN eventhook.source s ON s.id = e.source_id
WHERE ` + l.where + `
ORDER BY ` + l.order + ` LIMIT @limit`
}

func (l *eventList) use(p indexPath) { l.where, l.order = p.where(), newestEventsFirst }

// filters returns the conditions of the filters that are set, and adds their parameters.
func (l *eventList) filters(source eventhook.SourceID, f eventhook.EventFilter) (sql string) {
	if !source.IsZero() {
		l.args["source"] = [16]byte(source)
		sql += ` AND e.source_id = @source`
	}
	if f.EventType != "" {
		l.args["type"] = f.EventType
		sql += ` AND e.event_type = @type`
	}
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
