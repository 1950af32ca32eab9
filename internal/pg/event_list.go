package pg

import (
	"fmt"
	"strings"
	"time"

	"github.com/eventhook/eventhook"
)

// Every list of events has these parameters; filters have those that follow.
// $1 is the tenant, $2 the first id, $3 the id after the last, $4 the limit.

// road leads to a list through the one index that holds just what is wanted:
// columns with one value each, and then the id, from one bound to the other.
// Of conditions on all of a row at once an index looks at the first column
// alone to know where to stop, and goes on through what is not wanted.
type road struct {
	columns []string // of the index, but for the id
	values  []string // theirs; filters have $5 and on
	also    string   // an index's predicate; what else must hold
}

// usesListIndexes lets the planner use the indexes of lists, which no other statement
// may use: see their migration.
const usesListIndexes = ` AND e.body_size >= 0`

// ofTenant looks at the tenant in words that no index answers to.
const ofTenant = ` AND (e.tenant_id = $1) IS TRUE`

const tenantColumn, sourceColumn = `e.tenant_id`, `e.source_id`

var (
	byTenant       = road{[]string{tenantColumn}, []string{`$1`}, ``}                                                                             // primary key
	byDelivered    = road{byTenant.columns, byTenant.values, ` AND e.status = 'delivered'`}                                                       // primary key: they are the most
	bySource       = road{[]string{sourceColumn}, []string{`$5`}, ofTenant + usesListIndexes}                                                     // event_source
	byType         = road{[]string{tenantColumn, `e.event_type`}, []string{`$1`, `$5`}, usesListIndexes}                                          // event_type_list
	byStatus       = road{[]string{tenantColumn, `e.status`}, []string{`$1`, `$5`}, usesListIndexes + exceptional}                                // event_status
	bySourceStatus = road{[]string{sourceColumn, `e.status`}, []string{`$5`, `$6`}, ofTenant + usesListIndexes + exceptional}                     // event_source_status
	byDuplicate    = road{[]string{tenantColumn, `e.idempotency_key`}, []string{`$1`, `$5`}, usesListIndexes + ` AND e.duplicate_of IS NOT NULL`} // event_duplicate
)

// statusSQL are the states as constants: only these let the planner see that a
// partial index holds them.
var statusSQL = func() map[eventhook.EventStatus]string {
	all := map[eventhook.EventStatus]string{}
	for _, s := range eventhook.EventStatuses {
		all[s] = `'` + string(s) + `'`
	}
	return all
}()

const exceptional = ` AND e.status IN ('failed', 'dead', 'unrouted', 'duplicate')`

// isExceptional reports whether events in a state are in the partial indexes.
func isExceptional(s eventhook.EventStatus) bool {
	return s != "" && strings.Contains(exceptional, statusSQL[s])
}

// where is the condition. The bounds of the id alone prune partitions.
//
// Another index has the first column and the order, too, and walks in vain
// through all that the other columns rule out. So those are compared thrice:
// the index needs one of these, and the planner, who takes them for conditions
// of their own, believes that next to nothing is left, whatever it believes of
// the data, and that the other walk is long.
func (r road) where() string {
	sql := `e.id >= $2 AND e.id < $3`
	for i, column := range r.columns {
		sql += ` AND ` + column + ` = ` + r.values[i]
		if i > 0 {
			sql += ` AND ` + column + ` >= ` + r.values[i] + ` AND ` + column + ` <= ` + r.values[i]
		}
	}
	return sql + r.also
}

const newestEventsFirst = `e.id DESC`

// eventList is a list's statement, put together of constant parts, and its
// parameters.
type eventList struct {
	with, from, where, order string
	args                     []any

	// isMixed says that several filters cut across each other: which index is
	// best depends on the values, which the planner must see.
	isMixed bool
}

// newEventList is for a filter whose source is known by its id; zero is any.
func newEventList(tenant eventhook.TenantID, source eventhook.SourceID, f eventhook.EventFilter) eventList {
	from, before := idRange(f)
	l := eventList{from: `eventhook.event e`, args: []any{[16]byte(tenant), [16]byte(from), [16]byte(before), f.Limit}}
	hasSource, hasType, hasStatus := !source.IsZero(), f.EventType != "", f.Status != ""
	switch {
	case f.IdempotencyKey != "":
		l.byKey(source, f)
	case hasSource && !hasType && isExceptional(f.Status):
		l.along(bySourceStatus, [16]byte(source), string(f.Status))
	case hasSource && !hasType && !hasStatus:
		l.along(bySource, [16]byte(source))
	case hasType && !hasSource && !hasStatus:
		l.along(byType, f.EventType)
	case isExceptional(f.Status) && !hasSource && !hasType:
		l.along(byStatus, string(f.Status))
	case !hasSource && !hasType && !hasStatus:
		l.along(byTenant)
	case f.Status == eventhook.EventDelivered && !hasSource && !hasType:
		l.along(byDelivered)
	default:
		l.isMixed = true
		l.where = `e.tenant_id = $1 AND e.id >= $2 AND e.id < $3` + usesListIndexes + l.filters(source, f)
		l.order = newestEventsFirst
	}
	return l
}

// sql is the statement that reads columns of the events, and their sources.
func (l eventList) sql(columns string) string {
	return l.with + `SELECT ` + columns + ` FROM ` + l.from + ` LEFT JOIN eventhook.source s ON s.id = e.source_id
WHERE ` + l.where + `
ORDER BY ` + l.order + ` LIMIT $4`
}

func (l *eventList) along(r road, value ...any) {
	l.where, l.order, l.args = r.where(), newestEventsFirst, append(l.args, value...)
}

// filters is a condition for each that is given.
func (l *eventList) filters(source eventhook.SourceID, f eventhook.EventFilter) (sql string) {
	if !source.IsZero() {
		sql += ` AND e.source_id = ` + l.parameter([16]byte(source))
	}
	if f.EventType != "" {
		sql += ` AND e.event_type = ` + l.parameter(f.EventType)
	}
	switch f.Status {
	case "":
	case eventhook.EventPending, eventhook.EventProcessing: // event_due has these
		sql += ` AND e.due_at IS NOT NULL AND e.status = ` + statusSQL[f.Status]
	default:
		sql += ` AND e.status = ` + statusSQL[f.Status]
	}
	return sql
}

func (l *eventList) parameter(v any) string {
	l.args = append(l.args, v)
	return fmt.Sprintf(`$%d`, len(l.args))
}

// byKey finds the events that made a key by the key, in whatever scope, and
// their duplicates by event_duplicate: an index on the keys of all events would
// cost more than all others together, since keys come in no order.
func (l *eventList) byKey(source eventhook.SourceID, f eventhook.EventFilter) {
	l.args = append(l.args, f.IdempotencyKey)
	scope := ``
	if !source.IsZero() {
		scope = ` AND scope = ` + l.parameter(source.String())
	}
	rest := l.filters(eventhook.SourceID{}, f)
	if !source.IsZero() { // in words that event_source does not answer to
		rest += ` AND (e.source_id = ` + l.parameter([16]byte(source)) + `) IS TRUE`
	}
	l.with = `WITH keys AS MATERIALIZED (
    SELECT made FROM eventhook.idempotency_key WHERE tenant_id = $1 AND key = $5` + scope + `
), found AS MATERIALIZED (
    SELECT e.id FROM keys k JOIN eventhook.event e ON e.tenant_id = $1 AND e.id = k.made
    WHERE e.id >= $2 AND e.id < $3 AND e.idempotency_key = $5` + rest + `
    UNION ALL
    (SELECT e.id FROM eventhook.event e WHERE ` + byDuplicate.where() + rest + ` ORDER BY ` + newestEventsFirst + ` LIMIT $4)
)
`
	l.from = `found JOIN eventhook.event e ON e.tenant_id = $1 AND e.id = found.id`
	l.where, l.order = `true`, newestEventsFirst
}

// idRange turns moments into the ids between which a list lies: at least
// from, and before the other.
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
