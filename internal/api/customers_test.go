package api_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/api"
	"github.com/eventhook/eventhook/outbound"
)

// customer returns a session of a customer of acme with a link to the portal.
func customer(scope string) api.Session {
	g := person(eventhook.ScopeRead, eventhook.ScopeManage)
	g.Customer = &eventhook.Customer{Scope: scope, MaxEndpoints: 3}
	return byGrant(g)
}

// owned creates a subscription with a scope_filter.
func (r *fixture) owned(scope ...string) string {
	r.Helper()
	r.clock.Advance(time.Millisecond)
	return r.subscribed(object{"name": "billing", "url": billing, "event_types": []string{"order.*"},
		"scope_filter": append([]string{}, scope...)})
}

// deliverOf creates a delivery of an event with a scope.
func (r *fixture) deliverOf(scope, subscription string, change ...func(*eventhook.Delivery)) string {
	r.Helper()
	id := r.deliverTo(subscription, change...)
	_, err := r.conn.Exec(r.Context(), `UPDATE eventhook.event SET envelope = json_build_object('scope', $2::text)
		WHERE id = (SELECT event_id FROM eventhook.delivery WHERE id = $1)`, id, scope)
	r.must(err)
	return id
}

// forCustomers are the operations that a customer may call. A new operation is not among them unless its
// handler asks what the customer may see.
var forCustomers = []string{
	"list-subscriptions", "get-subscription", "create-subscription", "update-subscription", "delete-subscription",
	"pause-subscription", "resume-subscription", "enable-subscription", "test-subscription", "rotate-subscription-secret",
	"get-subscription-stats", "list-subscription-deliveries", "get-delivery", "get-delivery-request", "retry-delivery",
	"replay-subscription", "list-replays", "cancel-replay", "list-event-types",
}

func TestACustomerCallsFewOperations(t *testing.T) {
	r := setUp(t)
	close(r.stopping)
	g := *customer("customer-4").Grant
	g.Admin = true // a customer is no admin, whatever else its grant has
	permitted := map[string]bool{}
	for _, op := range r.operations() {
		a := r.as(byGrant(g), op.Method, pathOf(op, "acme"), `{"no such field":1}`)
		if isRefused := a.Code == http.StatusForbidden &&
			strings.Contains(a.Body.String(), "link to the portal"); !isRefused {
			permitted[op.OperationID] = true
		}
	}
	for _, id := range forCustomers {
		if !permitted[id] {
			t.Errorf("a customer may not call %s", id)
		}
		delete(permitted, id)
	}
	if len(permitted) > 0 {
		t.Errorf("a customer may call %v", permitted)
	}
}

func TestACustomerReachesNothingOfOthers(t *testing.T) {
	r := setUp(t)
	s := customer("customer-4")
	foreign := map[string]string{"another customer": r.owned("customer-42"),
		"both": r.owned("customer-4", "customer-42"), "every scope": r.owned("*"),
		"no scope": r.owned()}
	own := r.owned("customer-4")
	paths := []string{"GET ", "PATCH ", "DELETE ", "POST /pause", "POST /resume", "POST /enable", "POST /test",
		"POST /rotate-secret", "GET /stats",
		"GET /deliveries", "POST /replay", "GET /replays", "POST /replays/ID/cancel"}
	for _, id := range foreign {
		delivery := r.deliverOf("customer-4", id, withStatus(eventhook.DeliveryDead)) // of an event of the customer
		for _, path := range paths {
			method, rest, _ := strings.Cut(path, " ")
			r.as(s, method, subscriptionPath(id)+strings.Replace(rest, "ID", id, 1),
				bodyOf(method, rest)).want(http.StatusNotFound)
		}
		for _, path := range []string{"GET ", "GET /request", "POST /retry"} {
			method, rest, _ := strings.Cut(path, " ")
			r.as(s, method, T("acme")+deliveries+"/"+delivery+rest, "").want(http.StatusNotFound)
		}
	}
	if len(r.tested) > 0 {
		t.Errorf("tested %v, want none", r.tested)
	}
	var list page
	for _, query := range []string{"", "?scope=customer-42", "?scope=customer"} {
		r.as(s, "GET", T("acme")+subscriptions+query, "").want(http.StatusOK).into(&list)
		if got := list.ids(); !cmp.Equal(got, []string{own}) {
			t.Errorf("%q lists %v, want %s", query, got, own)
		}
	}
}

func bodyOf(method, path string) string {
	switch {
	case method == http.MethodPatch:
		return `{"name":"x"}`
	case path == "/replay":
		return `{"since":"2026-01-01T00:00:00Z"}`
	}
	return ""
}

// The tenant gave a subscription of several customers to one of them.
func TestACustomerReachesDeliveriesOfItsScopeOnly(t *testing.T) {
	r := setUp(t)
	id := r.owned("*")
	list := map[string]string{}
	for _, scope := range []string{"customer-4", "customer-4/eu", "customer-42", "other"} {
		list[scope] = r.deliverOf(scope, id, withStatus(eventhook.DeliveryDead))
	}
	list[""] = r.deliverTo(id, withStatus(eventhook.DeliveryDead))
	r.clock.Advance(time.Hour)
	r.startReplay(id, object{"since": "2026-03-01T00:00:00Z"})
	r.admin("PATCH", subscriptionPath(id), object{"scope_filter": []string{"customer-4", "customer-4/*"}}).want(http.StatusOK)
	s := customer("customer-4")
	for scope, d := range list {
		want := http.StatusNotFound
		if eventhook.InScope(scope, "customer-4") {
			want = http.StatusOK
		}
		path := T("acme") + deliveries + "/" + d
		r.as(s, "GET", path, "").want(want)
		r.as(s, "GET", path+"/request", "").want(want)
	}
	var shown page
	for _, query := range []string{"", "status=dead", "event_type=order.*", "limit=1"} {
		var ids []string
		cursor := ""
		for isFirst := true; isFirst || cursor != ""; isFirst = false {
			shown = page{}
			r.as(s, "GET", subscriptionPath(id)+"/deliveries?"+query+"&cursor="+cursor, "").want(http.StatusOK).into(&shown)
			ids = append(ids, shown.ids()...)
			if cursor = ""; shown.NextCursor != nil {
				cursor = *shown.NextCursor
			}
		}
		if want := []string{list["customer-4/eu"], list["customer-4"]}; !cmp.Equal(ids, want) {
			t.Errorf("%q lists %v, want %v", query, ids, want)
		}
	}
	r.as(s, "GET", subscriptionPath(id)+"/replays", "").want(http.StatusOK).into(&shown)
	if len(shown.Items) > 0 {
		t.Errorf("lists the replays %v, want none of before the change", shown.Items)
	}
	before := r.list(subscriptionPath(id) + "/replays").ids()[0]
	r.as(s, "POST", subscriptionPath(id)+"/replays/"+before+"/cancel", "").want(http.StatusNotFound)
	r.clock.Advance(time.Second)
	started := r.as(s, "POST", subscriptionPath(id)+"/replay",
		`{"since":"2026-03-01T00:00:00Z","status":["dead","success"],"missing":true}`).want(http.StatusAccepted).object()
	if started["estimated"] != 2.0 {
		t.Errorf("a replay is estimated to send %v, want 2", started["estimated"])
	}
	r.as(s, "POST", subscriptionPath(id)+"/replays/"+fmt.Sprint(started["replay_id"])+"/cancel", "").want(http.StatusOK)
	for scope, d := range list {
		want := http.StatusNotFound
		if eventhook.InScope(scope, "customer-4") {
			want = http.StatusOK
		}
		r.as(s, "POST", T("acme")+deliveries+"/"+d+"/retry", "").want(want)
	}
	if got := r.as(s, "GET", subscriptionPath(id)+"/stats", "").want(http.StatusOK).object(); got["waiting"] != 2.0 {
		t.Errorf("%v are waiting, want 2", got["waiting"])
	}
}

func TestACustomerSeesNoMissedDeliveriesOfOthers(t *testing.T) {
	r := setUp(t)
	id := r.owned("*")
	for _, scope := range []string{"customer-42", "customer-4"} {
		r.deliverOf(scope, id, withStatus(eventhook.DeliveryPending), func(d *eventhook.Delivery) {
			d.NextAttemptAt,
				d.CompletedAt = new(r.clock.Now()), nil
		})
	}
	r.settleOne(id, func(s *outbound.DeliverySettlement) {
		s.Status, s.LastError, s.FailingSince, s.CircuitOpen = eventhook.DeliveryDead, "down", r.clock.Now(), true
	})
	r.admin("PATCH", subscriptionPath(id), object{"scope_filter": []string{"customer-4"}}).want(http.StatusOK)
	for claim, s := range map[string]struct {
		session api.Session
		want    float64
	}{"the tenant": {byGrant(person(eventhook.ScopeRead)), 2}, "the customer": {customer("customer-4"), 1}} {
		if got := r.as(s.session, "GET", subscriptionPath(id),
			"").want(http.StatusOK).object(); got["missed_count"] != s.want {
			t.Errorf("%s: %v were missed, want %v", claim, got["missed_count"], s.want)
		}
	}
}

func TestACustomerDoesNotSetWhatIsOfTheSender(t *testing.T) {
	r := setUp(t)
	s := customer("customer-4")
	fields := func(more object) string {
		body := object{"name": "x", "url": billing, "event_types": []string{"order.made"},
			"scope_filter": []string{"customer-4"}}
		for name, value := range more {
			body[name] = value
		}
		raw, err := json.Marshal(body)
		r.must(err)
		return string(raw)
	}
	for at, body := range map[string]object{"body.scope_filter": {"scope_filter": []string{"customer-42"}},
		"body.target_labels": {"target_labels": []string{"env:prod"}}} {
		got := r.as(s, "POST", T("acme")+subscriptions,
			fields(body)).want(http.StatusUnprocessableEntity).problem().locations()
		if !cmp.Equal(got, []string{at}) {
			t.Errorf("a new subscription has faults at %v, want %s", got, at)
		}
	}
	r.as(s, "POST", T("acme")+subscriptions,
		fields(object{"scope_filter": []string{}})).want(http.StatusUnprocessableEntity)
	r.as(s, "POST", T("acme")+subscriptions,
		fields(object{"scope_filter": []string{"customer-4/eu"}})).want(http.StatusCreated)
	labelled, plain := r.owned("customer-4"), r.owned("customer-4")
	r.admin("PATCH", subscriptionPath(labelled), object{"target_labels": []string{"env:prod"}}).want(http.StatusOK)
	for _, c := range []struct {
		id, body, at string
	}{
		{plain, `{"scope_filter":["customer-4","customer-4/eu"]}`, "body.scope_filter"},
		{plain, `{"target_labels":["env:prod"]}`, "body.target_labels"},
		{labelled, `{"target_labels":[]}`, "body.target_labels"},
		{labelled, `{"url":"http://169.254.169.254/latest/meta-data"}`, "body.url"},
		{labelled, `{"url":"https://billing.example/other"}`, "body.url"},
	} {
		if got := r.as(s, "PATCH", subscriptionPath(c.id),
			c.body).want(http.StatusUnprocessableEntity).problem().locations(); !slices.Contains(got, c.at) {
			t.Errorf("%s: faults at %v, want %s", c.body, got, c.at)
		}
	}
	r.as(s, "PATCH", subscriptionPath(labelled),
		`{"name":"renamed","url":"`+fmt.Sprint(r.subscription(labelled)["url"])+`"}`).want(http.StatusOK)
	r.as(s, "PATCH", subscriptionPath(plain), `{"url":"https://new.example/"}`).want(http.StatusOK)
	r.admin("PATCH", subscriptionPath(labelled), object{"url": "https://inside.example/"}).want(http.StatusOK)
}

func TestACustomerHasFewSubscriptions(t *testing.T) {
	r := setUp(t)
	s := customer("customer-4")
	create := func(want int) *answer {
		return r.as(s, "POST", T("acme")+subscriptions,
			`{"name":"x","url":"`+billing+`","event_types":["order.made"],"scope_filter":["customer-4"]}`).want(want)
	}
	r.owned("customer-4/eu") // counts
	r.owned("customer-42")   // does not
	create(http.StatusCreated)
	create(http.StatusCreated)
	if got := create(http.StatusConflict).problem().Detail; !strings.Contains(got, "has 3 endpoints") {
		t.Errorf("got %q, want the maximum", got)
	}
	r.owned("customer-4")
}

func TestACustomerSeesNoTokenEndpoint(t *testing.T) {
	r := setUp(t)
	id := r.owned("customer-4")
	const text = eventhook.NoToken + ": login.internal:8443 answered 401 Unauthorized"
	d := r.deliverOf("customer-4", id, withStatus(eventhook.DeliveryDead),
		func(d *eventhook.Delivery) { d.LastError = text })
	_, err := r.conn.Exec(t.Context(), `UPDATE eventhook.delivery SET history = $2 WHERE id = $1`, d,
		`{"started_at":"2026-03-10T15:00:00Z","duration_ms":1,"error":"`+text+`","error_class":"http_4xx"}`+"\n")
	r.must(err)
	for _, path := range []string{T("acme") + deliveries + "/" + d, subscriptionPath(id) + "/deliveries"} {
		if got := r.as(customer("customer-4"), "GET", path, "").want(http.StatusOK).Body.String(); strings.Contains(got,
			"login.internal") || !strings.Contains(got, eventhook.NoToken) {
			t.Errorf("GET %s shows %s", path, got)
		}
		if got := r.admin("GET", path, nil).want(http.StatusOK).Body.String(); !strings.Contains(got, "login.internal") {
			t.Errorf("GET %s hides the endpoint from the tenant: %s", path, got)
		}
	}
}

// subscriptionLists blocks lists of subscriptions.
type subscriptionLists struct {
	api.SubscriptionStore
	*budgetHarness
}

func (s subscriptionLists) Subscriptions(ctx context.Context, tenant eventhook.TenantID,
	_ eventhook.SubscriptionFilter) ([]eventhook.Subscription, error) {
	return nil, s.call(ctx, tenant)
}

func (s *budgetHarness) Tenant(_ context.Context, slug string) (eventhook.Tenant, error) {
	for _, t := range s.keys {
		if t.Slug == slug {
			return t, nil
		}
	}
	return eventhook.Tenant{}, eventhook.NotFound("tenant")
}

// However much its customers read, a tenant finds a slot.
func TestCustomersLeaveTheSlotsOfTheirTenant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newBudgetHarness(t, api.Limits{ListConns: 8}, func(d *api.Deps) {
			d.Subscriptions = subscriptionLists{nil,
				d.Keys.(*budgetHarness)}
		})
		key := s.key("acme")
		lists := &answers{t: t}
		for n := range 40 {
			lists.wait.Go(func() {
				ctx := api.WithSession(t.Context(), customer(fmt.Sprintf("customer-%d", n)))
				a := httptest.NewRecorder()
				s.router.ServeHTTP(a, httptest.NewRequestWithContext(ctx, "GET", T("acme")+subscriptions, nil))
				lists.mu.Lock()
				defer lists.mu.Unlock()
				lists.list = append(lists.list, a)
			})
		}
		if in := s.calls(); len(in) != 4 {
			t.Fatalf("%d lists of customers run, want half of the 8 connections", len(in))
		}
		lists.want("with 4 running and 32 waiting", map[int]int{429: 4})
		s.start(4, key, "GET", T("acme")+"/events", nil)
		if in := s.calls(); len(in) != 4 {
			t.Errorf("%d lists of the tenant run, want its half of the connections", len(in))
		}
		close(s.unblock)
		lists.wait.Wait()
	})
}
