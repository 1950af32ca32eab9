package api_test

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eventhook/eventhook"
)

// lists returns for the path of every list a function that adds an item.
func (r *fixture) lists() map[string]func(n int) (id string) {
	tick := func() { r.clock.Advance(time.Millisecond) }
	audited := func(n int) string {
		tick()
		r.admin("PUT", T("acme")+"/event-types/"+fmt.Sprint("t", n), object{"description": r.clock.Now().String()}) // a new value each time
		return r.list(T("acme") + "/audit?limit=1").ids()[0]
	}
	newKey := func(int) string {
		tick()
		_, k := r.key("acme", eventhook.ScopeRead)
		return k.ID.String()
	}
	subscription := r.subscribe("never")
	ops := fmt.Sprint(r.admin("POST", allSubscriptions, object{"name": "ops", "url": "https://ops.example/", "event_types": []string{"never"}}).want(http.StatusCreated).object()["id"])
	replayOf := func(path string) func(int) string {
		return func(n int) string {
			tick()
			body := object{"since": "2026-01-01T00:00:00Z", "limit": n + 1}
			id := fmt.Sprint(r.admin("POST", path+"/replay", body).want(http.StatusAccepted).object()["replay_id"])
			r.admin("POST", path+"/replays/"+id+"/cancel", nil).want(http.StatusOK)
			return id
		}
	}
	return map[string]func(int) string{
		T("acme") + "/events":                 func(int) string { return r.event().ID.String() },
		T("acme") + "/work":                   func(int) string { tick(); return r.execution(eventhook.Task, "build") },
		T("acme") + "/agents":                 func(n int) string { tick(); return fmt.Sprint(r.createAgent(fmt.Sprint("a", n), "env:prod")["id"]) },
		T("acme") + "/promises":               func(n int) string { tick(); return r.createPromise(fmt.Sprint("p", n), http.StatusCreated).ID },
		T("acme") + "/sources/crm/rejections": func(int) string { tick(); return r.rejection().ID.String() },
		T("acme") + "/sources": func(n int) string {
			tick()
			return fmt.Sprint(r.admin("POST", T("acme")+"/sources", object{"slug": fmt.Sprint("s", n), "verifier": object{"type": "none"}}).want(http.StatusCreated).object()["id"])
		},
		T("acme") + "/sources/crm/routes": func(n int) string {
			tick()
			body := object{"name": fmt.Sprint("r", n), "targets": []object{{"type": "task", "task_kind": "x"}}}
			return fmt.Sprint(r.admin("POST", T("acme")+"/sources/crm/routes", body).want(http.StatusCreated).object()["id"])
		},
		T("acme") + "/subscriptions":                                 func(int) string { tick(); return r.subscribe("*") },
		T("acme") + "/deliveries":                                    func(int) string { return r.deliverTo(subscription) },
		T("acme") + "/subscriptions/" + subscription + "/deliveries": func(int) string { return r.deliverTo(subscription) },
		subscriptionPath(subscription) + "/replays":                  replayOf(subscriptionPath(subscription)),
		allSubscriptions + "/" + ops + "/deliveries":                 func(int) string { return r.deliverTo(ops) },
		allSubscriptions + "/" + ops + "/replays":                    replayOf(allSubscriptions + "/" + ops),
		"/api/admin/events":                                          func(int) string { return r.event().ID.String() },
		"/api/admin/deliveries":                                      func(int) string { return r.deliverTo(subscription) },
		"/api/admin/subscriptions":                                   func(int) string { tick(); return r.subscribe("*") },
		T("acme") + "/audit":                                         audited,
		"/api/admin/audit":                                           audited,
		"/api/admin/tenants": func(n int) string {
			tick()
			return fmt.Sprint(r.admin("POST", "/api/admin/tenants", map[string]any{"slug": fmt.Sprint("t", n), "name": "T"}).want(http.StatusCreated).object()["id"])
		},
		"/api/admin/tenants/acme/keys": newKey,
		T("acme") + "/keys":            newKey,
	}
}

func TestListsArePaged(t *testing.T) {
	r := setUp(t)
	lists := r.lists()
	for _, op := range r.operations() {
		path := strings.Replace(pathOf(op, "acme"), "/nowhere/", "/crm/", 1)
		if rest, of := strings.CutPrefix(op.Path, tenantBase+"/subscriptions/{id}"); of {
			path = T("acme") + "/subscriptions/" + r.list(T("acme") + "/subscriptions").ids()[0] + rest
		}
		if rest, of := strings.CutPrefix(op.Path, allSubscriptions+"/{id}"); of {
			path = allSubscriptions + "/" + r.operatorSubscription() + rest
		}
		hasBuiltins := op.OperationID == "list-providers" || op.OperationID == "list-event-types" // contain built-in items; have their own tests
		isCount := op.OperationID == "list-dead-groups"                                           // has no pages
		if strings.HasPrefix(op.OperationID, "list-") && !hasBuiltins && !isCount && lists[path] == nil {
			t.Errorf("%s: no entry in lists", op.Path)
		}
	}
	for path, add := range lists {
		t.Run(path, func(t *testing.T) {
			r := r.subtest(t)
			want := r.everyPage(path)
			for n := range 7 {
				want = slices.Insert(want, 0, add(n))
			}
			var got []string
			cursor, n := "", 7
			for {
				p := r.list(path + "?limit=3&cursor=" + cursor)
				got = append(got, p.ids()...)
				if p.NextCursor == nil {
					break
				}
				if len(p.Items) != 3 {
					t.Fatalf("a page that is not the last has %d items, want 3", len(p.Items))
				}
				add(n) // must not be on a later page
				cursor, n = *p.NextCursor, n+1
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("want newest first, each item once, no later items (-want +got):\n%s", diff)
			}
		})
	}
}

// operatorSubscription returns the id of an operator subscription.
func (r *fixture) operatorSubscription() string {
	r.Helper()
	for _, x := range r.list(allSubscriptions).Items {
		if x["is_operator"] == true {
			return fmt.Sprint(x["id"])
		}
	}
	r.Fatal("there is no operator subscription")
	return ""
}

// everyPage returns the ids of all pages of a list.
func (r *fixture) everyPage(path string) (ids []string) {
	for cursor := ""; ; {
		p := r.list(path + "?limit=250&cursor=" + cursor)
		ids = append(ids, p.ids()...)
		if p.NextCursor == nil {
			return ids
		}
		cursor = *p.NextCursor
	}
}

func TestLastPageHasNoCursor(t *testing.T) {
	r := setUp(t)
	for range 6 {
		r.event()
	}
	for _, c := range []struct {
		limit, items int
		more         bool
	}{{5, 5, true}, {6, 6, false}, {7, 6, false}} {
		p := r.list(fmt.Sprintf("%s/events?limit=%d", T("acme"), c.limit))
		if len(p.Items) != c.items || (p.NextCursor != nil) != c.more {
			t.Errorf("limit %d: got %d items and the cursor %v, want %d items; next page: %v", c.limit, len(p.Items), p.NextCursor, c.items, c.more)
		}
	}
	if got := r.admin("GET", T("umbrella")+"/events", nil).want(http.StatusOK).Body.String(); strings.TrimSpace(got) != `{"items":[],"next_cursor":null}` {
		t.Errorf("an empty list is %s", got)
	}
}

func TestListsAreBounded(t *testing.T) {
	r := setUp(t)
	for range 260 {
		r.event()
	}
	for limit, want := range map[string]int{"": 50, "?limit=": 50, "?limit=250": 250} {
		if p := r.list(T("acme") + "/events" + limit); len(p.Items) != want || p.NextCursor == nil {
			t.Errorf("%q: got %d items and the cursor %v, want %d items and a cursor", limit, len(p.Items), p.NextCursor, want)
		}
	}
}

func TestEventFilters(t *testing.T) {
	r := setUp(t)
	long := strings.Repeat("k", 300)
	names := map[string]string{} // by id
	event := func(called string, change ...func(*eventhook.Event)) *eventhook.Event {
		r.clock.Advance(time.Second)
		e := r.event(change...)
		names[e.ID.String()] = called
		return e
	}
	event("a", func(e *eventhook.Event) { e.IdempotencyKey = "one" })
	event("b", func(e *eventhook.Event) { e.IdempotencyKey = "one" })
	c := event("c", func(e *eventhook.Event) { e.EventType = "ping" })
	r.settle(c, r.plannedExecution(eventhook.Task, "build"))
	event("d", func(e *eventhook.Event) { e.SourceID, e.IdempotencyKey = r.shop, eventhook.NormalizeKey(long) })
	q := url.QueryEscape
	at := func(e *eventhook.Event) string { return q(e.ID.Time().Format(time.RFC3339Nano)) }
	for _, f := range []struct{ claim, query, want string }{
		{"all", "", "d c b a"},
		{"a source", "source=shop", "d"},
		{"of an unknown source", "source=unknown", ""},
		{"a status", "status=delivered", "c"},
		{"duplicates", "status=duplicate", "b"},
		{"a type", "event_type=ping", "c"},
		{"a key, with its duplicates", "idempotency_key=one", "b a"},
		{"of a key longer than the stored one", "idempotency_key=" + long, "d"},
		{"received after a time", "received_after=" + at(c), "d"},
		{"received before a time", "received_before=" + at(c), "b a"},
		{"in another time zone", "received_before=" + q(c.ID.Time().In(time.FixedZone("", 7200)).Format(time.RFC3339Nano)), "b a"},
		{"received between two times", "received_after=" + q(noon.Format(time.RFC3339)) + "&received_before=" + at(c), "b a"},
		{"after the year 1960", "received_after=1960-01-01T00:00:00Z", "d c b a"},
		{"before the year 1960", "received_before=1960-01-01T00:00:00Z", ""},
		{"after the year 9999", "received_after=9999-12-31T23:59:59Z", ""},
		{"before the year 9999", "received_before=9999-12-31T23:59:59Z", "d c b a"},
		{"all filters", "source=crm&status=delivered&event_type=ping&limit=1", "c"},
		{"filters that exclude each other", "source=shop&event_type=ping", ""},
	} {
		t.Run(f.claim, func(t *testing.T) {
			r := r.subtest(t)
			var got []string
			for _, id := range r.list(T("acme") + "/events?" + f.query).ids() {
				got = append(got, names[id])
			}
			if s := strings.Join(got, " "); s != f.want {
				t.Errorf("got %q, want %q", s, f.want)
			}
		})
	}
}

func TestWorkFilters(t *testing.T) {
	r := setUp(t)
	r.execution(eventhook.Workflow, "pay")
	r.execution(eventhook.Task, "build", func(x *eventhook.Execution) { x.Queue = "ci" })
	r.execution(eventhook.Task, "mail")
	if got := r.claim(map[string]any{"kinds": []string{"mail"}}); len(got) != 1 {
		t.Fatalf("claimed %d, want one", len(got))
	}
	for _, f := range []struct{ query, want string }{
		{"", "mail build pay"},
		{"type=workflow", "pay"},
		{"type=task", "mail build"},
		{"status=running", "mail"},
		{"status=pending", "build pay"},
		{"kind=pay", "pay"},
		{"queue=ci", "build"},
		{"queue=default&type=task", "mail"},
		{"kind=nothing", ""},
	} {
		var got []string
		for _, i := range r.list(T("acme") + "/work?" + f.query).Items {
			got = append(got, fmt.Sprint(i["kind"]))
		}
		if s := strings.Join(got, " "); s != f.want {
			t.Errorf("%q: got %q, want %q", f.query, s, f.want)
		}
	}
}
