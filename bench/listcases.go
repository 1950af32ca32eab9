package main

import (
	"net/url"
	"strconv"
	"time"
)

// list is one that is measured.
type list struct {
	operation string // by its id in the API's document
	name      string
	path      string
	query     url.Values
	isSecond  bool // its second page is measured
}

// url is the list's, for a limit that the query may overrule.
func (l list) url(limit int) string {
	q := url.Values{"limit": {strconv.Itoa(limit)}}
	for k, v := range l.query {
		q[k] = v
	}
	return l.path + "?" + q.Encode()
}

// listed makes the lists of one kind.
type listed struct {
	operation, name, path string
	all                   []list
}

// with adds a list that is narrowed by names and values in turn.
func (k *listed) with(name string, query ...string) *listed {
	q := url.Values{}
	for i := 0; i < len(query); i += 2 {
		q.Set(query[i], query[i+1])
	}
	if name != "" {
		name = ", " + name
	}
	k.all = append(k.all, list{k.operation, k.name + name, k.path, q, false})
	return k
}

// second adds the second page of the list that was added last.
func (k *listed) second() *listed {
	l := k.all[len(k.all)-1]
	l.name, l.isSecond = l.name+", second page", true
	k.all = append(k.all, l)
	return k
}

const (
	tenantAPI = "/api/tenants/" + benchTenant + "/eventhook"
	adminAPI  = "/api/admin"
)

// lists are all that the gateway has, for a database that was filled: each is
// as long in every fill. What there are only ten of is asked for by eight, so
// that there is a second page.
func (f *filler) lists() (all []list) {
	const eight = "8"
	for _, k := range []*listed{
		f.eventLists(),
		(&listed{operation: "list-sources", name: "sources", path: tenantAPI + "/sources"}).with("", "limit", eight),
		(&listed{operation: "list-routes", name: "routes", path: tenantAPI + "/sources/" + filledSource(1) + "/routes"}).with("").second(),
		(&listed{operation: "list-routes", name: "the one route", path: tenantAPI + "/sources/" + filledSource(2) + "/routes"}).with(""),
		(&listed{operation: "list-rejections", name: "rejections", path: tenantAPI + "/sources/" + filledSource(1) + "/rejections"}).with(""),
		(&listed{operation: "list-event-types", name: "event types", path: tenantAPI + "/event-types"}).with("", "limit", eight).second(),
		(&listed{operation: "list-tenants", name: "tenants", path: adminAPI + "/tenants"}).with("", "limit", eight),
		(&listed{operation: "list-keys", name: "keys", path: adminAPI + "/tenants/" + benchTenant + "/keys"}).with("", "limit", eight),
		(&listed{operation: "list-audit", name: "audit", path: adminAPI + "/audit"}).with("").second().
			with("tenant", "tenant", benchTenant).second().with("action", "action", "source.updated").second().
			with("rare action", "action", rareAction).with("tenant, action", "tenant", benchTenant, "action", "source.updated").
			with("no such action", "action", "source.none"),
		(&listed{operation: "list-tenant-audit", name: "the tenant's audit", path: tenantAPI + "/audit"}).with("").second().
			with("action", "action", "source.updated").with("rare action", "action", rareAction),
		(&listed{operation: "list-work", name: "work", path: tenantAPI + "/work"}).with("").second().with("type", "type", "task").
			with("status", "status", "completed").with("kind", "kind", "kind-7").with("queue", "queue", "queue-3"),
		(&listed{operation: "list-promises", name: "promises", path: tenantAPI + "/promises"}).with("").second().
			with("key", "idempotency_key", "key-77"),
		(&listed{operation: "list-providers", name: "providers", path: tenantAPI + "/providers"}).with("").second(),
	} {
		all = append(all, k.all...)
	}
	return all
}

// eventLists are lists of events by each filter, where it finds many and where
// it finds few or none, and by several that cut across each other.
func (f *filler) eventLists() *listed {
	const manyMillis, few, five = 100, "20", "5"
	moment := func(n int) string { return f.at(n).UTC().Format(time.RFC3339Nano) }
	first, second, middle := filledSource(1), filledSource(2), f.events/2
	k := &listed{operation: "list-events", name: "events", path: tenantAPI + "/events"}
	k.with("").second()
	k.with("source", "source", second).second().with("source of few", "source", first)
	k.with("delivered", "status", "delivered").second()
	for _, s := range []string{"failed", "dead", "unrouted", "duplicate", "pending", "processing"} {
		k.with("few "+s, "status", s)
	}
	k.with("type", "event_type", "type.7", "limit", few).second().with("rare type", "event_type", rareType).with("no such type", "event_type", "type.none")
	k.with("before", "received_before", moment(middle)).second().with("after", "received_after", moment(middle))
	k.with("after and before", "received_after", moment(middle), "received_before", moment(middle+manyMillis)).second()
	k.with("before the first", "received_before", moment(1)).with("after the last", "received_after", moment(f.events))
	k.with("key", "idempotency_key", "key-77").with("no such key", "idempotency_key", "key-none")
	k.with("key of a duplicate", "idempotency_key", "key-8")

	k.with("source, delivered", "source", second, "status", "delivered").second().with("source, failed", "source", first, "status", "failed")
	k.with("source, type", "source", second, "event_type", "type.7", "limit", five).with("source, rare type", "source", first, "event_type", rareType)
	k.with("source, pending", "source", second, "status", "pending").with("source, key", "source", second, "idempotency_key", "key-77")
	k.with("source, type, delivered", "source", second, "event_type", "type.7", "status", "delivered", "limit", five)
	k.with("source, before", "source", second, "received_before", moment(middle))
	k.with("type, delivered", "event_type", "type.7", "status", "delivered", "limit", few).second()
	k.with("type, few failed", "event_type", "type.4", "status", "failed").with("rare type, failed", "event_type", rareType, "status", "failed")
	k.with("rare type, delivered", "event_type", rareType, "status", "delivered").with("rare type, pending", "event_type", rareType, "status", "pending")
	k.with("type, before", "event_type", "type.7", "received_before", moment(middle), "limit", few)
	k.with("failed, before", "status", "failed", "received_before", moment(middle))
	k.with("key, failed", "idempotency_key", "key-77", "status", "failed")
	return k
}
