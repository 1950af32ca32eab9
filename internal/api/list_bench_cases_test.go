package api_test

import (
	"net/url"
	"strconv"
	"time"

	"github.com/eventhook/eventhook/bench/seed"
)

// listCase is a list request that BenchmarkLists measures.
type listCase struct {
	name       string
	path       string
	query      url.Values
	secondPage bool // measure the second page instead of the first
}

// url returns the path and query of the first page. A limit of the query replaces the
// default of 50.
func (c listCase) url() string {
	const limit = 50
	q := url.Values{"limit": {strconv.Itoa(limit)}}
	for k, v := range c.query {
		q[k] = v
	}
	return c.path + "?" + q.Encode()
}

// listCases builds the cases of one list operation.
type listCases struct {
	name, path string
	all        []listCase
}

// with adds a case with query parameters, given as names and values in turn.
func (l *listCases) with(filter string, query ...string) *listCases {
	q := url.Values{}
	for i := 0; i < len(query); i += 2 {
		q.Set(query[i], query[i+1])
	}
	name := l.name
	if filter != "" {
		name += ", " + filter
	}
	l.all = append(l.all, listCase{name: name, path: l.path, query: q})
	return l
}

// second adds the second page of the last case.
func (l *listCases) second() *listCases {
	c := l.all[len(l.all)-1]
	c.name, c.secondPage = c.name+", second page", true
	l.all = append(l.all, c)
	return l
}

// listCases returns cases of all list operations for a seeded database. A case returns
// the same number of rows in databases of all sizes. A small database has ten sources,
// so lists of as many rows have the limit 8 to get a second page.
func (s *benchServer) listCases(events int) (all []listCase) {
	const eight = "8"
	tenantAPI, adminAPI := T(benchTenant), "/api/admin"
	for _, l := range []*listCases{
		s.eventListCases(events),
		(&listCases{name: "sources", path: tenantAPI + "/sources"}).with("", "limit", eight),
		(&listCases{name: "routes", path: tenantAPI + "/sources/" + seed.SourceSlug(1) + "/routes"}).with("").second(),
		(&listCases{name: "the one route", path: tenantAPI + "/sources/" + seed.SourceSlug(2) + "/routes"}).with(""),
		(&listCases{name: "rejections", path: tenantAPI + "/sources/" + seed.SourceSlug(1) + "/rejections"}).with(""),
		(&listCases{name: "event types", path: tenantAPI + "/event-types"}).with("", "limit", eight).second(),
		(&listCases{name: "tenants", path: adminAPI + "/tenants"}).with("", "limit", eight),
		(&listCases{name: "keys", path: adminAPI + "/tenants/" + benchTenant + "/keys"}).with("", "limit", eight),
		(&listCases{name: "audit", path: adminAPI + "/audit"}).with("").second().
			with("tenant", "tenant", benchTenant).second().with("action", "action", "source.updated").second().
			with("rare action", "action", seed.RareAction).with("tenant, action", "tenant", benchTenant, "action", "source.updated").
			with("no such action", "action", "source.none"),
		(&listCases{name: "the tenant's audit", path: tenantAPI + "/audit"}).with("").second().
			with("action", "action", "source.updated").with("rare action", "action", seed.RareAction),
		(&listCases{name: "work", path: tenantAPI + "/work"}).with("").second().with("type", "type", "task").
			with("status", "status", "completed").with("kind", "kind", "kind-7").with("queue", "queue", "queue-3"),
		(&listCases{name: "promises", path: tenantAPI + "/promises"}).with("").second().
			with("key", "idempotency_key", "key-77"),
		(&listCases{name: "providers", path: tenantAPI + "/providers"}).with("").second(),
	} {
		all = append(all, l.all...)
	}
	return all
}

// eventListCases returns lists of events by each filter, with many, few and no matching
// events, and by combinations of filters.
func (s *benchServer) eventListCases(events int) *listCases {
	const manyMillis, twenty, five = 100, "20", "5"
	moment := func(n int) string { return s.ReceivedAt(n).UTC().Format(time.RFC3339Nano) }
	first, second, middle := seed.SourceSlug(1), seed.SourceSlug(2), events/2
	l := &listCases{name: "events", path: T(benchTenant) + "/events"}
	l.with("").second()
	l.with("source", "source", second).second().with("source of few", "source", first)
	l.with("delivered", "status", "delivered").second()
	for _, status := range []string{"failed", "dead", "unrouted", "duplicate", "pending", "processing"} {
		l.with("few "+status, "status", status)
	}
	l.with("type", "event_type", "type.7", "limit", twenty).second().with("rare type", "event_type", seed.RareType).with("no such type", "event_type", "type.none")
	l.with("before", "received_before", moment(middle)).second().with("after", "received_after", moment(middle))
	l.with("after and before", "received_after", moment(middle), "received_before", moment(middle+manyMillis)).second()
	l.with("before the first", "received_before", moment(1)).with("after the last", "received_after", moment(events))
	l.with("key", "idempotency_key", "key-77").with("no such key", "idempotency_key", "key-none")
	l.with("key of a duplicate", "idempotency_key", "key-8")

	l.with("source, delivered", "source", second, "status", "delivered").second().with("source, failed", "source", first, "status", "failed")
	l.with("source, type", "source", second, "event_type", "type.7", "limit", five).with("source, rare type", "source", first, "event_type", seed.RareType)
	l.with("source, pending", "source", second, "status", "pending").with("source, key", "source", second, "idempotency_key", "key-77")
	l.with("source, type, delivered", "source", second, "event_type", "type.7", "status", "delivered", "limit", five)
	l.with("source, before", "source", second, "received_before", moment(middle))
	l.with("type, delivered", "event_type", "type.7", "status", "delivered", "limit", twenty).second()
	l.with("type, few failed", "event_type", "type.4", "status", "failed").with("rare type, failed", "event_type", seed.RareType, "status", "failed")
	l.with("rare type, delivered", "event_type", seed.RareType, "status", "delivered").with("rare type, pending", "event_type", seed.RareType, "status", "pending")
	l.with("type, before", "event_type", "type.7", "received_before", moment(middle), "limit", twenty)
	l.with("failed, before", "status", "failed", "received_before", moment(middle))
	l.with("key, failed", "idempotency_key", "key-77", "status", "failed")
	return l
}
