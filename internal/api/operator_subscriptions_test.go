package api_test

import (
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eventhook/eventhook"
)

const allSubscriptions = "/api/admin/subscriptions"

func TestOperatorSubscriptions(t *testing.T) {
	r := setUp(t)
	body := map[string]any{"name": "ops", "url": "https://ops.example/hooks", "event_types": []string{"tenant.closed", "payment.*"}, "tenants": []string{"acme"}}
	a := r.admin("POST", allSubscriptions, body).want(http.StatusCreated)
	created := a.object()
	id, _ := created["id"].(string)
	at := allSubscriptions + "/" + id
	if created["is_operator"] != true || created["signing_secret"] == "" || a.Header().Get("Location") != at {
		t.Errorf("created %v at %s", created, a.Header().Get("Location"))
	}
	r.clock.Advance(time.Second) // lists are newest first
	own := r.admin("POST", T("acme")+"/subscriptions", map[string]any{"name": "own", "url": "https://own.example/", "event_types": []string{"*"}}).want(http.StatusCreated).object()

	for query, want := range map[string][]any{"": {own["id"], id}, "?tenant=acme": {own["id"]}, "?tenant=umbrella": {}, "?event_type=tenant.closed&status=active": {own["id"], id}} {
		ids := []any{}
		for _, x := range r.list(allSubscriptions + query).Items {
			ids = append(ids, x["id"])
			if isOperator := x["is_operator"] == true; isOperator == (x["tenant"] == "acme") {
				t.Errorf("list%s: got %v, want either an operator's or a tenant's", query, x)
			}
		}
		if !slices.Equal(ids, want) {
			t.Errorf("list%s: got %v, want %v", query, ids, want)
		}
	}
	if got := r.list(allSubscriptions + "?is_operator=true").ids(); !slices.Equal(got, []string{id}) {
		t.Errorf("operator subscriptions: got %v, want only %s", got, id)
	}
	r.wantFaults(r.admin("GET", allSubscriptions+"?is_operator=true&tenant=acme", nil), http.StatusUnprocessableEntity, []string{"query.is_operator"})
	r.admin("GET", allSubscriptions+"?tenant=unknown", nil).want(http.StatusNotFound)
	r.admin("GET", at, nil).want(http.StatusOK)
	r.admin("GET", allSubscriptions+"/"+own["id"].(string), nil).want(http.StatusNotFound)
	if got := r.admin("PATCH", at, map[string]any{"tenants": nil, "event_types": []string{"*"}}).want(http.StatusOK).object(); got["tenants"] != nil || got["version"] != 2.0 {
		t.Errorf("patched: got %v, want no tenants", got)
	}
	for _, verb := range []string{"pause", "resume", "enable", "test", "rotate-secret"} {
		r.admin("POST", at+"/"+verb, nil).want(http.StatusOK)
	}
	r.admin("GET", at+"/stats", nil).want(http.StatusOK)
	if entry := r.list("/api/admin/audit?action=webhook.created").Items[1]; entry["tenant"] != nil || entry["actor"].(map[string]any)["type"] != "admin" {
		t.Errorf("the audit entry is %v, want one of the admin without a tenant", entry)
	}

	// No tenant sees it.
	for _, path := range []string{T("acme") + "/subscriptions/" + id, T("_operator") + "/subscriptions", tenants + "/_operator"} {
		r.admin("GET", path, nil).want(http.StatusNotFound)
	}
	for _, x := range r.list(T("acme") + "/subscriptions").Items {
		if x["id"] == id {
			t.Error("a tenant's list has the operator subscription")
		}
	}
	for _, x := range r.list(tenants).Items {
		if x["slug"] == eventhook.OperatorSlug {
			t.Error("the list of tenants has the operator tenant")
		}
	}
	p := r.admin("POST", T("acme")+"/subscriptions", body).want(http.StatusUnprocessableEntity).problem()
	if !slices.Contains(p.locations(), "body.tenants") {
		t.Errorf("tenants of a tenant's subscription: got faults at %v, want body.tenants", p.locations())
	}
	labelled := object{"target_labels": []string{"site:berlin"}}
	r.wantFaults(r.admin("PATCH", at, labelled), http.StatusUnprocessableEntity, []string{"body.target_labels"})
	r.admin("DELETE", at, nil).want(http.StatusNoContent)
	r.admin("GET", at, nil).want(http.StatusNotFound)
}

func TestAnUnknownTenantOfAnOperatorSubscriptionIsAWarning(t *testing.T) {
	r := setUp(t)
	want := []any{"The tenant later does not exist: the subscription receives its events when it is created. Check the slug in tenants."}
	check := func(claim string, got any, want []any) {
		t.Helper()
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: warnings (-want +got):\n%s", claim, diff)
		}
	}
	body := object{"name": "ops", "url": "https://ops.example/", "event_types": []string{"*"}, "tenants": []string{"acme", "later"}}
	created := r.admin("POST", allSubscriptions, body).want(http.StatusCreated).object()
	check("created", created["warnings"], want)
	at := allSubscriptions + "/" + created["id"].(string)
	get := func() any { return r.admin("GET", at, nil).want(http.StatusOK).object()["warnings"] }
	check("read", get(), want)
	check("paused", r.admin("POST", at+"/pause", nil).want(http.StatusOK).object()["warnings"], want)
	check("listed", r.list(allSubscriptions).Items[0]["warnings"], want)
	check("known tenants", r.admin("PATCH", at, object{"tenants": []string{"acme"}}).want(http.StatusOK).object()["warnings"], []any{})
	check("updated", r.admin("PATCH", at, object{"tenants": []string{"later"}}).want(http.StatusOK).object()["warnings"], want)
	r.admin("POST", tenants, object{"slug": "later", "name": "Later"}).want(http.StatusCreated)
	check("created later", get(), []any{})
}
