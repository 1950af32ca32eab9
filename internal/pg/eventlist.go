package pg

import (
	"fmt"
	"strings"
	"time"

	"github.com/eventhook/eventhook"
)

// Every list of events has these parameters; filters have those that follow.
// $1 is the tenant, $2 the first id, $3 the id after the last, $4 the limit.

// road leads to a list through the one index that holds just what is wanted,
// in its order. Whole rows are compared, and the order names all the columns,
// so that the planner finds no other index, whatever it believes of the data:
// one that it walks in vain costs as much as there are events.
type road struct {
	columns string // of the index
	values  string // of the columns before the id; $5 is the filter's value
	also    string // an index's predicate; what else must hold
}

// isListed lets the planner use the indexes of lists, which no other statement
// may use: see their migration.
const isListed = ` AND e.body_size >= 0`

// isTenants looks at the tenant in words that no index answers to.
const isTenants = ` AND (e.tenant_id = $1) IS TRUE`

var (
	byTenant    = road{`e.tenant_id, e.id`, `$1`, ``}                                                                  // primary key
	byDelivered = road{byTenant.columns, byTenant.values, ` AND e.status = 'delivered'`}                               // primary key: they are the most
	bySource    = road{`e.source_id, e.id`, `$5`, isTenants + isListed}                                                // event_source
	byType      = road{`e.tenant_id, e.event_type, e.id`, `$1, $5`, isListed}                                          // event_type_list
	byDuplicate = road{`e.tenant_id, e.idempotency_key, e.id`, `$1, $5`, isListed + ` AND e.duplicate_of IS NOT NULL`} // event_duplicate
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

// byStatus is event_status, for an exceptional state.
func byStatus(s eventhook.EventStatus) road {
	return road{`e.tenant_id, e.status, e.id`, `$1, ` + statusSQL[s], isListed + exceptional}
}

// bySourceStatus is event_source_status, for an exceptional state.
func bySourceStatus(s eventhook.EventStatus) road {
	return road{`e.source_id, e.status, e.id`, `$5, ` + statusSQL[s], isTenants + isListed + exceptional}
}

// where is the condition. The bounds of the id alone prune partitions.
func (r road) where() string {
	return fmt.Sprintf(`(%s) >= (%s, $2) AND (%[1]s) < (%[2]s, $3) AND e.id >= $2 AND e.id < $3`, r.columns, r.values) + r.also
}

// order reads the index backwards.
func (r road) order() string {
	return strings.ReplaceAll(r.columns, ",", " DESC,") + ` DESC`
}

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
	from, before := idBounds(f)
	l := eventList{from: `eventhook.event e`, args: []any{[16]byte(tenant), [16]byte(from), [16]byte(before), f.Limit}}
	hasSource, hasType, hasStatus := !source.IsZero(), f.EventType != "", f.Status != ""
	switch {
	case f.IdempotencyKey != "":
		l.byKey(source, f)
	case hasSource && !hasType && isExceptional(f.Status):
		l.along(bySourceStatus(f.Status), [16]byte(source))
	case hasSource && !hasType && !hasStatus:
		l.along(bySource, [16]byte(source))
	case hasType && !hasSource && !hasStatus:
		l.along(byType, f.EventType)
	case isExceptional(f.Status) && !hasSource && !hasType:
		l.along(byStatus(f.Status))
	case !hasSource && !hasType && !hasStatus:
		l.along(byTenant)
	case f.Status == eventhook.EventDelivered && !hasSource && !hasType:
		l.along(byDelivered)
	default:
		l.isMixed = true
		l.where = `e.tenant_id = $1 AND e.id >= $2 AND e.id < $3` + isListed + l.filters(source, f)
		l.order = `e.id DESC`
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
	l.where, l.order, l.args = r.where(), r.order(), append(l.args, value...)
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
	rest := l.filters(source, f)
	l.with = `WITH keys AS MATERIALIZED (
    SELECT made FROM eventhook.idempotency_key WHERE tenant_id = $1 AND key = $5` + scope + `
), found AS MATERIALIZED (
    SELECT e.id FROM keys k JOIN eventhook.event e ON e.tenant_id = $1 AND e.id = k.made
    WHERE e.id >= $2 AND e.id < $3 AND e.idempotency_key = $5` + rest + `
    UNION ALL
    (SELECT e.id FROM eventhook.event e WHERE ` + byDuplicate.where() + rest + ` ORDER BY ` + byDuplicate.order() + ` LIMIT $4)
)
`
	l.from = `found JOIN eventhook.event e ON e.tenant_id = $1 AND e.id = found.id`
	l.where, l.order = `true`, `e.id DESC`
}

// idBounds turns moments into the ids between which a list lies: at least
// from, and before the other.
func idBounds(f eventhook.EventFilter) (from, before eventhook.EventID) {
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
