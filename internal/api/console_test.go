package api_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/api"
	"github.com/eventhook/eventhook/internal/portallink"
	"github.com/eventhook/eventhook/outbound"
)

func TestLookup(t *testing.T) {
	r := setUp(t)
	e := r.event()
	read, _ := r.key("acme", eventhook.ScopeRead)
	foreign, _ := r.key("umbrella", eventhook.ScopeRead)
	query := "/lookup?id=" + url.QueryEscape(` "`+e.ID.String()+`" `)
	var got, none page
	r.call(read, "GET", T("acme")+query, nil).want(http.StatusOK).into(&got)
	want := map[string]any{"type": "event", "id": e.ID.String(), "label": "push, processing", "at": e.ID.Time().Format(time.RFC3339Nano), "source_slug": nil, "subscription_id": nil}
	if diff := cmp.Diff([]map[string]any{want}, got.Items); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	r.call(foreign, "GET", T("umbrella")+query, nil).want(http.StatusOK).into(&none)
	if len(none.Items) > 0 {
		t.Errorf("another tenant got %v", none.Items)
	}
	if all := r.list("/api/admin" + query); len(all.Items) != 1 || all.Items[0]["tenant"] != "acme" {
		t.Errorf("the admin got %v, want the event of acme", all.Items)
	}
	if routes := r.list(T("acme") + "/lookup?id=" + r.route.ID.String()); len(routes.Items) != 1 || routes.Items[0]["source_slug"] != "crm" {
		t.Errorf("got %v, want the route with its source", routes.Items)
	}
	for _, id := range []string{"", "%20%22%22", strings.Repeat("x", 513)} {
		r.call(read, "GET", T("acme")+"/lookup?id="+id, nil).want(http.StatusUnprocessableEntity)
	}
	work, _ := r.key("acme", eventhook.ScopeWork)
	r.call(work, "GET", T("acme")+query, nil).want(http.StatusForbidden)
}

func TestDeadGroups(t *testing.T) {
	r := setUp(t)
	s := r.subscribe("order.*")
	d := r.admin("POST", subscriptionPath(s)+"/send", object{"event_id": r.event().ID.String()}).want(http.StatusAccepted).object()["delivery_id"]
	r.settleOne(s, func(o *outbound.DeliverySettlement) {
		o.Status, o.LastError, o.DeadInRow = eventhook.DeliveryDead, "billing.example answered 500 Internal Server Error", 0
	})
	got := r.list(T("acme") + "/deliveries/dead-groups?subscription_id=" + s)
	if len(got.Items) != 1 {
		t.Fatalf("got %v, want one group", got.Items)
	}
	g := got.Items[0]
	host, _ := g["host"].(string)
	if g["cause"] != "500 from "+host || host == "" || g["count"] != 1.0 || g["is_exact"] != true || g["subscription_id"] != s || g["status_code"] != 500.0 ||
		!cmp.Equal(g["sample_ids"], []any{d}) {
		t.Errorf("got the group %v", g)
	}
	retry := func(status int, filter object, expected int) *answer {
		return r.admin("POST", T("acme")+"/deliveries/retry", object{"filter": filter, "limit": 10, "expected_count": expected}).want(status)
	}
	retry(http.StatusConflict, object{"key": g["key"]}, 2)
	for at, filter := range map[string]object{"body.filter.key": {"key": "x"}, "body.filter.subscription_id": {"key": g["key"], "subscription_id": s},
		"body.filter.status": {"key": g["key"], "status": "failed"}} {
		if got := retry(http.StatusUnprocessableEntity, filter, 1).problem().locations(); !cmp.Equal(got, []string{at}) {
			t.Errorf("%v: got the faults at %v, want %s", filter, got, at)
		}
	}
	r.change(s, func(x *eventhook.Subscription) { x.Status = eventhook.SubscriptionDisabled })
	retry(http.StatusConflict, object{"key": g["key"]}, 1)
	r.change(s, func(x *eventhook.Subscription) { x.Status = eventhook.SubscriptionActive })
	if got := retry(http.StatusOK, object{"key": g["key"]}, 1).object(); !cmp.Equal(got["delivery_ids"], any([]any{d})) {
		t.Errorf("retried %v, want %s", got, d)
	}
}

func TestAnEventIsSentToOneSubscription(t *testing.T) {
	r := setUp(t)
	e, s := r.event(), r.subscribe("payment.*")
	path := subscriptionPath(s) + "/send"
	send := func(status int) map[string]any {
		return r.admin("POST", path, object{"event_id": e.ID.String()}).want(status).object()
	}
	first := send(http.StatusAccepted)
	if first["created"] != true {
		t.Errorf("got %v, want a new delivery", first)
	}
	want := map[string]any{"delivery_id": first["delivery_id"], "created": false}
	if diff := cmp.Diff(want, send(http.StatusAccepted)); diff != "" {
		t.Errorf("sent twice (-want +got):\n%s", diff)
	}
	for _, status := range []eventhook.SubscriptionStatus{eventhook.SubscriptionPaused, eventhook.SubscriptionDisabled} {
		r.change(s, func(x *eventhook.Subscription) { x.Status = status })
		send(http.StatusConflict)
	}
	read, _ := r.key("acme", eventhook.ScopeRead)
	r.call(read, "POST", path, object{"event_id": e.ID.String()}).want(http.StatusForbidden)
	r.admin("POST", path, object{"event_id": "x"}).want(http.StatusBadRequest)
	for _, body := range []object{{}, {"event_id": ""}} {
		r.admin("POST", path, body).want(http.StatusUnprocessableEntity)
	}
}

func TestSubscriptionsOfAScopeAreListed(t *testing.T) {
	r := setUp(t)
	subscribed := func(scopes ...string) string {
		r.clock.Advance(time.Millisecond)
		id := r.subscribe("payment.*")
		r.change(id, func(x *eventhook.Subscription) { x.ScopeFilter = scopes })
		return id
	}
	subscribed()
	subscribed("*")
	mine := subscribed("customer-4", "customer-4/orders/*")
	subscribed("customer-42/*")
	if got := r.list(T("acme") + "/subscriptions?scope=customer-4").ids(); !cmp.Equal(got, []string{mine}) {
		t.Errorf("got %v, want %s", got, mine)
	}
	r.admin("GET", T("acme")+"/subscriptions?scope=*", nil).want(http.StatusUnprocessableEntity)
}

func TestPortalLinks(t *testing.T) {
	r := setUp(t)
	manage, _ := r.key("acme", eventhook.ScopeManage)
	a := r.call(manage, "POST", T("acme")+"/portal-links", object{"scope": "customer-42", "expires_in_seconds": 60, "read_only": true, "max_endpoints": 7}).want(http.StatusCreated)
	if got := a.Header().Get("Cache-Control"); got != "no-store" {
		t.Errorf("got Cache-Control %q, want no-store", got)
	}
	link := a.object()
	text, _ := link["url"].(string)
	token, ok := strings.CutPrefix(text, "https://hooks.example/portal/enter?code=")
	if !ok {
		t.Fatalf("got the URL %s", text)
	}
	l, err := portallink.Open([]byte(portalKey), token, r.clock.Now().Add(59*time.Second))
	if err != nil || l.TenantID != r.acme || l.Scope != "customer-42" || !l.IsReadOnly || l.MaxEndpoints != 7 || link["expires_at"] != l.ExpiresAt.Format(time.RFC3339) {
		t.Errorf("got %+v, %v, want a link of acme until %v", l, err, link["expires_at"])
	}
	if got := r.list(T("acme") + "/audit?action=portal_link.created"); len(got.Items) != 1 {
		t.Errorf("got the audit entries %v, want one", got.Items)
	}
	hour := r.call(manage, "POST", T("acme")+"/portal-links", object{"scope": "a"}).want(http.StatusCreated).object()
	_, token, _ = strings.Cut(fmt.Sprint(hour["url"]), "code=")
	if l, err := portallink.Open([]byte(portalKey), token, r.clock.Now()); err != nil || l.MaxEndpoints != eventhook.DefaultMaxEndpoints || l.IsReadOnly {
		t.Errorf("got %+v, %v, want the defaults", l, err)
	}
	if want := r.clock.Now().Add(time.Hour).UTC().Truncate(time.Second).Format(time.RFC3339); hour["expires_at"] != want {
		t.Errorf("got the expiry time %v, want %s by default", hour["expires_at"], want)
	}
	for at, body := range map[string]object{"body.scope": {"scope": "*"}, "body.expires_in_seconds": {"scope": "a", "expires_in_seconds": 59},
		"body.max_endpoints": {"scope": "a", "max_endpoints": 0}} {
		if got := r.admin("POST", T("acme")+"/portal-links", body).want(http.StatusUnprocessableEntity).problem().locations(); !cmp.Equal(got, []string{at}) {
			t.Errorf("%v: got the faults at %v, want %s", body, got, at)
		}
	}
	r.admin("POST", T("acme")+"/portal-links", object{"scope": "a", "expires_in_seconds": 2592001}).want(http.StatusUnprocessableEntity)
	r.admin("POST", T("acme")+"/portal-links", object{"scope": "a", "max_endpoints": eventhook.MaxEndpointsLimit + 1}).want(http.StatusUnprocessableEntity)
	read, _ := r.key("acme", eventhook.ScopeRead)
	r.call(read, "POST", T("acme")+"/portal-links", object{"scope": "a"}).want(http.StatusForbidden)
}

func TestPortalLinksNeedAPublicURL(t *testing.T) {
	r := setUp(t, func(d *api.Deps) { d.PublicURL = "" })
	r.admin("POST", T("acme")+"/portal-links", object{"scope": "a"}).want(http.StatusConflict)
}

func TestATenantListsItsKeys(t *testing.T) {
	r := setUp(t)
	manage, own := r.key("acme", eventhook.ScopeManage)
	r.key("umbrella", eventhook.ScopeManage)
	var got page
	a := r.call(manage, "GET", T("acme")+"/keys", nil).want(http.StatusOK)
	a.into(&got)
	if !cmp.Equal(got.ids(), []string{own.ID.String()}) || strings.Contains(a.Body.String(), manage) {
		t.Errorf("got %s, want the key %s without its text", a.Body, own.ID)
	}
	read, _ := r.key("acme", eventhook.ScopeRead)
	r.call(read, "GET", T("acme")+"/keys", nil).want(http.StatusForbidden)
}
