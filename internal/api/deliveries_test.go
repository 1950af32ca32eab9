package api_test

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eventhook/eventhook"
)

// deliverTo creates a delivery of a new event and returns its id. The delivery has
// succeeded unless a change says otherwise.
func (r *fixture) deliverTo(subscription string, change ...func(*eventhook.Delivery)) string {
	r.Helper()
	r.clock.Advance(time.Millisecond)
	of := eventhook.NewID[eventhook.Event](r.clock.Now())
	id, err := eventhook.ParseID[eventhook.Subscription](subscription)
	r.must(err)
	d := eventhook.Delivery{ID: eventhook.DeliveryIDOf(of, eventhook.DestinationID(id)), TenantID: r.acme, SubscriptionID: id, EventID: of, EventType: "order.made",
		Status: eventhook.DeliverySuccess, Attempts: 1, StatusCode: 200, CompletedAt: new(r.clock.Now())}
	for _, c := range change {
		c(&d)
	}
	r.storeDelivery(d, eventhook.Attempt{StartedAt: r.clock.Now(), Duration: time.Second, StatusCode: d.StatusCode})
	return d.ID.String()
}

// withStatus returns a change that sets the status of a delivery.
func withStatus(status eventhook.DeliveryStatus) func(*eventhook.Delivery) {
	return func(d *eventhook.Delivery) {
		if d.Status = status; status != eventhook.DeliverySuccess {
			d.StatusCode, d.LastError, d.RetryCount = 500, "answered 500", 1
		}
	}
}

// delivered creates a subscription with a delivery.
func (r *fixture) delivered() (subscription, delivery string) {
	r.Helper()
	subscription = r.subscribe("order.*")
	return subscription, r.deliverTo(subscription)
}

func TestGetDelivery(t *testing.T) {
	r := setUp(t)
	subscription := r.subscribe("order.*")
	of := eventhook.NewID[eventhook.Event](noon)
	d := eventhook.Delivery{ID: eventhook.DeliveryIDOf(of, eventhook.DestinationID(r.stored(subscription).ID)), TenantID: r.acme, SubscriptionID: r.stored(subscription).ID, EventID: of, EventType: "order.made",
		Status: eventhook.DeliveryFailed, Attempts: 3, RetryCount: 2, NextAttemptAt: new(noon.Add(time.Minute)), LastError: "no answer within 30 s"}
	r.storeDelivery(d,
		eventhook.Attempt{StartedAt: noon, Duration: 1234 * time.Millisecond, StatusCode: 503, ErrorClass: eventhook.ErrorHTTP5xx, Error: "answered 503", Excerpt: "later"},
		eventhook.Attempt{StartedAt: noon.Add(time.Second), Duration: 30 * time.Second, ErrorClass: eventhook.ErrorTimeout, Error: "no answer within 30 s"})
	path := T("acme") + deliveries + "/" + d.ID.String()
	got := r.admin("GET", path, nil).want(http.StatusOK).object()
	want := object{
		"id": d.ID.String(), "event_id": of.String(), "event_type": "order.made", "subscription_id": subscription, "subscription_name": "billing", "route_id": nil, "target_index": nil, "status": "failed",
		"attempt_count": 3.0, "retry_count": 2.0, "next_attempt_at": "2026-03-10T15:01:00Z", "status_code": nil, "last_error": "no answer within 30 s",
		"created_at": "2026-03-10T15:00:00Z", "completed_at": nil, "acquired_by": nil, "acquired_until": nil,
		"attempts": []any{
			object{"started_at": "2026-03-10T15:00:00Z", "duration_ms": 1234.0, "status_code": 503.0, "error": "answered 503", "error_class": "http_5xx", "response_excerpt": "later"},
			object{"started_at": "2026-03-10T15:00:01Z", "duration_ms": 30000.0, "status_code": nil, "error": "no answer within 30 s", "error_class": "timeout", "response_excerpt": nil},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	r.admin("DELETE", subscriptionPath(subscription), nil).want(http.StatusNoContent)
	if got := r.admin("GET", path, nil).want(http.StatusOK).object(); got["subscription_name"] != nil {
		t.Errorf("the subscription is %v after its deletion, want null", got["subscription_name"])
	}
	r.admin("GET", T("acme")+deliveries+"/1", nil).want(http.StatusBadRequest)
	r.admin("GET", T("acme")+deliveries+"/"+of.String(), nil).want(http.StatusNotFound)
}

func TestTheRequestOfADeliveryIsShown(t *testing.T) {
	r := setUp(t)
	subscription := r.subscribe("order.*")
	e := r.event(func(e *eventhook.Event) { e.EventType = "order.made" })
	d := eventhook.Delivery{ID: eventhook.DeliveryIDOf(e.ID, eventhook.DestinationID(r.stored(subscription).ID)), TenantID: r.acme, SubscriptionID: r.stored(subscription).ID, EventID: e.ID,
		EventType: "order.made", Status: eventhook.DeliveryDead, Attempts: 1}
	r.storeDelivery(d)
	path := T("acme") + deliveries + "/" + d.ID.String() + "/request"
	got := r.admin("GET", path, nil).want(http.StatusOK).object()
	body := base64.StdEncoding.EncodeToString([]byte("billing " + string(e.Body)))
	want := object{"method": "POST", "headers": object{"Webhook-Id": e.ID.String(), "X-Two": "a, b"}, "body_base64": body, "body_size": 15.0}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	want["body_base64"] = base64.StdEncoding.EncodeToString([]byte("bill"))
	if diff := cmp.Diff(want, r.admin("GET", path+"?max_bytes=4", nil).want(http.StatusOK).object()); diff != "" {
		t.Errorf("the beginning (-want +got):\n%s", diff)
	}
	r.admin("GET", T("acme")+deliveries+"/"+e.ID.String()+"/request", nil).want(http.StatusNotFound)
	r.admin("GET", T("acme")+deliveries+"/1/request", nil).want(http.StatusBadRequest)
	r.admin("DELETE", subscriptionPath(subscription), nil).want(http.StatusNoContent)
	r.admin("GET", path, nil).want(http.StatusConflict)
}

func TestTheEndOfALeaseIsNoNextAttempt(t *testing.T) {
	r := setUp(t)
	id := r.deliverTo(r.subscribe("order.*"), withStatus(eventhook.DeliveryAcquired), func(d *eventhook.Delivery) { d.NextAttemptAt = new(noon) })
	if got := r.admin("GET", T("acme")+deliveries+"/"+id, nil).want(http.StatusOK).object(); got["next_attempt_at"] != nil {
		t.Errorf("a delivery that is being sent is due at %v, want null", got["next_attempt_at"])
	} else if got["acquired_until"] != "2026-03-10T15:00:00Z" {
		t.Errorf("a delivery is acquired until %v, want the end of its lease", got["acquired_until"])
	}
}

func TestDeliveryFilters(t *testing.T) {
	r := setUp(t)
	one, other := r.subscribe("order.*"), r.subscribe("order.*")
	name := map[string]string{}
	called := func(n, id string) string { name[id] = n; r.clock.Advance(time.Second); return id }
	called("a", r.deliverTo(one))
	called("b", r.deliverTo(one, withStatus(eventhook.DeliveryDead)))
	c := called("c", r.deliverTo(other, withStatus(eventhook.DeliveryDead)))
	called("d", r.deliverTo(other))
	event := fmt.Sprint(r.admin("GET", T("acme")+deliveries+"/"+c, nil).object()["event_id"])
	at, err := eventhook.ParseID[eventhook.Event](event)
	r.must(err)
	moment := url.QueryEscape(at.Time().Format(time.RFC3339Nano))
	for _, f := range []struct{ path, want string }{
		{deliveries, "d c b a"},
		{deliveries + "?subscription_id=" + one, "b a"},
		{deliveries + "?event_id=" + event, "c"},
		{deliveries + "?status=dead", "c b"},
		{deliveries + "?created_after=" + moment, "d"},
		{deliveries + "?created_before=" + moment, "b a"},
		{deliveries + "?status=dead&subscription_id=" + other, "c"},
		{subscriptions + "/" + one + deliveries, "b a"},
		{subscriptions + "/" + one + deliveries + "?status=success", "a"},
		{subscriptions + "/" + one + deliveries + "?event_id=" + event, ""},
	} {
		var got []string
		for _, id := range r.list(T("acme") + f.path).ids() {
			got = append(got, name[id])
		}
		if s := strings.Join(got, " "); s != f.want {
			t.Errorf("%s: got %q, want %q", f.path, s, f.want)
		}
	}
	zero := eventhook.EventID{}.String()
	r.wantFaults(r.admin("GET", T("acme")+deliveries+"?event_id="+zero, nil), 422, []string{"query.event_id"})
	r.wantFaults(r.admin("GET", T("acme")+deliveries+"?subscription_id="+zero, nil), 422, []string{"query.subscription_id"})
	r.wantFaults(r.admin("GET", T("acme")+deliveries+"?subscription_id=1", nil), 400, []string{"query.subscription_id"})
	r.wantFaults(r.admin("GET", T("acme")+deliveries+"?status=lost", nil), 422, []string{"query.status"})
}

func TestEventListsItsDeliveries(t *testing.T) {
	r := setUp(t)
	e := r.event()
	subscription := r.subscribe("order.*")
	of := func(d *eventhook.Delivery) {
		d.ID, d.EventID = eventhook.DeliveryIDOf(e.ID, eventhook.DestinationID(eventhook.NewID[eventhook.Subscription](time.Now()))), e.ID
	}
	for range 1001 {
		r.deliverTo(subscription, of)
	}
	got := r.admin("GET", T("acme")+"/events/"+e.ID.String(), nil).want(http.StatusOK).object()
	list := got["deliveries"].([]any)
	if len(list) != 1000 || got["deliveries_count"] != 1001.0 || list[0].(object)["subscription_name"] != "billing" {
		t.Errorf("got %d of %v, want the first 1000 of 1001, with their subscription", len(list), got["deliveries_count"])
	}
	none := r.admin("GET", T("acme")+"/events/"+r.event().ID.String(), nil).want(http.StatusOK).object()
	if diff := cmp.Diff([]any{}, none["deliveries"]); diff != "" || none["deliveries_count"] != 0.0 {
		t.Errorf("an event without deliveries has %v", none["deliveries"])
	}
}

func TestRetryDelivery(t *testing.T) {
	r := setUp(t)
	subscription := r.subscribe("order.*")
	for status, want := range map[eventhook.DeliveryStatus]int{
		eventhook.DeliveryDead: 200, eventhook.DeliveryFailed: 200, eventhook.DeliverySuccess: 200,
		eventhook.DeliveryPending: 409, eventhook.DeliveryAcquired: 409,
	} {
		a := r.admin("POST", T("acme")+deliveries+"/"+r.deliverTo(subscription, withStatus(status))+"/retry", nil).want(want)
		if got := a.object(); want == 200 && (got["status"] != "pending" || got["retry_count"] != 0.0 || got["next_attempt_at"] == nil || got["attempts"] == nil) {
			t.Errorf("a delivery that was %s is %v, want it due with all its retries", status, got)
		}
	}
	dead, old := r.deliverTo(subscription, withStatus(eventhook.DeliveryDead)), r.deliverTo(subscription)
	r.deletePayloads()
	if a := r.admin("POST", T("acme")+deliveries+"/"+old+"/retry", nil).want(http.StatusConflict); !strings.Contains(a.problem().Detail, "its event's data is past the retention period") {
		t.Errorf("a delivery without data: got %s, want the reason", a.Body)
	}
	r.admin("DELETE", subscriptionPath(subscription), nil).want(http.StatusNoContent)
	r.admin("POST", T("acme")+deliveries+"/"+dead+"/retry", nil).want(http.StatusConflict)
}

func TestRetryToDisabledSubscriptionIsRefused(t *testing.T) {
	r := setUp(t)
	off, on := r.subscribe("order.*"), r.subscribe("order.*")
	dead, other := r.deliverTo(off, withStatus(eventhook.DeliveryDead)), r.deliverTo(on, withStatus(eventhook.DeliveryDead))
	r.change(off, func(s *eventhook.Subscription) { s.Status = eventhook.SubscriptionDisabled })
	for path, body := range map[string]any{
		T("acme") + deliveries + "/" + dead + "/retry": nil,
		T("acme") + deliveries + "/retry":              object{"filter": object{"subscription_id": off}, "limit": 9},
		subscriptionPath(off) + "/replay":              object{"since": "2020-01-01T00:00:00Z"},
	} {
		if p := r.admin("POST", path, body).want(http.StatusConflict).problem(); !strings.Contains(p.Detail, "Enable it first") {
			t.Errorf("%s: got %q, want the advice to enable it first", path, p.Detail)
		}
	}
	got := r.admin("POST", T("acme")+deliveries+"/retry", object{"filter": object{}, "limit": 9}).want(http.StatusOK).object()
	if diff := cmp.Diff([]any{other}, got["delivery_ids"]); diff != "" {
		t.Errorf("all subscriptions (-want +got):\n%s", diff)
	}
}

func TestRetryDeliveries(t *testing.T) {
	r := setUp(t)
	one, other := r.subscribe("order.*"), r.subscribe("order.*")
	fill := func() {
		r.deleteDeliveries()
		for _, status := range eventhook.DeliveryStatuses {
			r.clock.Advance(time.Hour)
			r.deliverTo(one, withStatus(status))
			r.deliverTo(other, withStatus(status))
		}
	}
	for _, c := range []struct {
		claim  string
		filter object
		limit  int
		want   int
	}{
		{"all failed and dead deliveries", object{}, 10, 4},
		{"a limit", object{}, 3, 3},
		{"one subscription", object{"subscription_id": one}, 10, 2},
		{"one status", object{"status": []string{"dead"}}, 10, 2},
		{"one status as a string", object{"status": "failed"}, 10, 2},
		{"before a past time", object{"created_before": "2020-01-01T00:00:00Z"}, 10, 0},
		{"after a past time", object{"created_after": "2020-01-01T00:00:00Z"}, 10, 4},
	} {
		fill()
		got := r.admin("POST", T("acme")+deliveries+"/retry", object{"filter": c.filter, "limit": c.limit}).want(http.StatusOK).object()
		if ids := got["delivery_ids"].([]any); got["retried_count"] != float64(c.want) || len(ids) != c.want {
			t.Errorf("%s: got %v, want %d", c.claim, got, c.want)
		}
	}
	for body, want := range map[string][]string{
		`{}`:                      {"body.filter", "body.limit"},
		`{"filter":{}}`:           {"body.limit"},
		`{"limit":5}`:             {"body.filter"},
		`{"filter":{},"limit":0}`: {"body.limit"},
		`{"filter":{"status":["success"]},"limit":1}`:                                           {"body.filter.status[0]"},
		`{"filter":{"status":"success"},"limit":1}`:                                             {"body.filter.status"},
		`{"filter":{"event_id":"00000000-0000-0000-0000-000000000000"},"limit":1}`:              {"body.filter.event_id"},
		`{"filter":{"created_after":"soon","status":[]},"limit":1001}`:                          {"body.filter.created_after", "body.filter.status", "body.limit"},
		`{"filter":{"colour":1},"limit":1}`:                                                     {"body.filter.colour"},
		`{"filter":{"subscription_id":"00000000-0000-0000-0000-000000000000"},"limit":1,"a":1}`: {"body.a", "body.filter.subscription_id"},
	} {
		r.wantFaults(r.admin("POST", T("acme")+deliveries+"/retry", body), 422, want)
	}
	r.wantFaults(r.admin("POST", T("acme")+deliveries+"/retry", `{"filter":{"subscription_id":"x","event_id":"y"},"limit":1}`), 400, []string{"body.filter.subscription_id", "body.filter.event_id"})
}

func TestDeliveriesOfRoutesNameTheirTarget(t *testing.T) {
	r := setUp(t)
	subscription := r.subscribe("order.*")
	r.deliverTo(subscription)
	of, route := eventhook.NewID[eventhook.Event](noon), eventhook.NewID[eventhook.Route](noon)
	d := eventhook.Delivery{TenantID: r.acme, RouteID: route, TargetIndex: 2, EventID: of, EventType: "push", Status: eventhook.DeliveryDead,
		LastError: "internal.example answered 410 Gone", CompletedAt: new(noon)}
	d.ID = eventhook.DeliveryIDOf(of, d.Destination().ID())
	r.storeDelivery(d)
	got := r.admin("GET", T("acme")+deliveries+"/"+d.ID.String(), nil).want(http.StatusOK).object()
	for member, want := range (object{"subscription_id": nil, "subscription_name": nil, "route_id": route.String(), "target_index": 2.0, "status": "dead"}) {
		if got[member] != want {
			t.Errorf("%s: got %v, want %v", member, got[member], want)
		}
	}
	for path, want := range map[string]int{"?route_id=" + route.String(): 1, "?route_id=" + eventhook.NewID[eventhook.Route](noon).String(): 0, "": 2} {
		if n := len(r.list(T("acme") + deliveries + path).ids()); n != want {
			t.Errorf("%s: got %d deliveries, want %d", path, n, want)
		}
	}
	r.wantFaults(r.admin("GET", T("acme")+deliveries+"?route_id="+eventhook.RouteID{}.String(), nil), 422, []string{"query.route_id"})
	r.wantFaults(r.admin("POST", T("acme")+deliveries+"/retry", `{"filter":{"route_id":"x"},"limit":1}`), 400, []string{"body.filter.route_id"})
	// The route does not exist.
	r.admin("POST", T("acme")+deliveries+"/"+d.ID.String()+"/retry", nil).want(http.StatusConflict)
}
