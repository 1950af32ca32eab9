package portalstories_test

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/eventhook/eventhook/client"
	"github.com/eventhook/eventhook/internal/browsertest"
	"github.com/eventhook/eventhook/internal/browsertest/gatewaytest"
)

// The customer cannot point an agent in the network of the sender at another address.
func TestEndpointForAgentsKeepsItsURL(t *testing.T) {
	t.Parallel()
	g := gatewaytest.Shared(t)
	n := g.Tenant(t, "agents")
	defineTypes(t, n)
	const inside = "https://svc.example/hook"
	e := gatewaytest.Must(n.Client.CreateSubscription(t.Context(), n.Slug,
		client.SubscriptionCreate{Name: "Inside", URL: inside,
			EventTypes: []string{"invoice.paid"}, ScopeFilter: []string{globex}, TargetLabels: []string{"env:prod"}}))
	v := newVisitor(t, g, n.PortalLink(globex, false))
	path := "/portal/endpoints/" + e.ID + "/edit"
	moved := url.Values{"csrf": {v.csrf}, "name": {"Inside"}, "url": {"http://169.254.169.254/latest/meta-data"},
		"event_types": {"invoice.paid"},
		"version":     {strconv.FormatInt(e.Version, 10)}, "headers": {"X-Metadata: true"}}
	if got := v.do(http.MethodPost, path, moved); got.status != http.StatusUnprocessableEntity ||
		!strings.Contains(got.body, "is set by the sender") {
		t.Errorf("another URL is answered %s", got)
	}
	added := url.Values{"csrf": {v.csrf}, "name": {"New"}, "url": {"http://10.0.0.5/"},
		"event_types": {"invoice.paid"}, "target_labels": {"env:prod"}}
	v.do(http.MethodPost, "/portal/endpoints/new", added)
	for _, x := range gatewaytest.Must(n.Client.ListSubscriptions(t.Context(), n.Slug,
		client.ListSubscriptionsParams{})).Items {
		if x.ID == e.ID && x.Version != e.Version || x.ID != e.ID && len(x.TargetLabels) > 0 {
			t.Errorf("the customer changed the endpoint %+v", x)
		}
	}
	p := browsertest.New(t)
	p.Open(n.PortalLink(globex, false))
	p.Open(g.URL + path)
	p.WaitText("#h-url", "To change it, ask the sender.")
	p.Axe()
	p.Fill("#f-name", "Renamed")
	p.ClickName("Save")
	p.WaitText("h1", "Renamed")
	if got := gatewaytest.Must(n.Client.GetSubscription(t.Context(), n.Slug, e.ID)); got.Name != "Renamed" ||
		got.URL != e.URL && !strings.HasPrefix(got.URL, "https://svc.example/") {
		t.Errorf("got the endpoint %s at %s, want another name and the same URL", got.Name, got.URL)
	}
}

func TestCustomerAddsFewEndpoints(t *testing.T) {
	t.Parallel()
	g := gatewaytest.Shared(t)
	n := g.Tenant(t, "few")
	defineTypes(t, n)
	link := gatewaytest.Must(n.Client.CreatePortalLink(t.Context(), n.Slug,
		client.PortalLinkCreate{Scope: globex, MaxEndpoints: new(int64(2))}))
	p := browsertest.New(t)
	p.Allow("422 (Unprocessable Entity)")
	p.Open(link.URL)
	for i := range 3 {
		p.Open(g.URL + "/portal/endpoints/new")
		p.Fill("#f-url", "http://127.0.0.1:1/"+strconv.Itoa(i))
		p.Fill("#f-name", "Endpoint "+strconv.Itoa(i))
		p.Click(`[value="invoice.paid"]`)
		p.ClickName("Add endpoint")
		if i < 2 {
			p.WaitText("h1", "Endpoint added")
		}
	}
	p.WaitText("[role=alert]", "The account has 2 endpoints, the maximum. Delete one, or ask the sender for more.")
	if got := gatewaytest.Must(n.Client.ListSubscriptions(t.Context(), n.Slug,
		client.ListSubscriptionsParams{})).Items; len(got) != 2 {
		t.Errorf("the tenant has %d endpoints, want 2", len(got))
	}
}

// A link keeps its newest 20 sessions.
func TestLinkHasFewSessions(t *testing.T) {
	t.Parallel()
	g := gatewaytest.Shared(t)
	link := g.Tenant(t, "sessions").PortalLink(globex, true)
	first, second := newVisitor(t, g, link), newVisitor(t, g, link)
	for range 19 {
		newVisitor(t, g, link)
	}
	if got := first.do(http.MethodGet, "/portal", nil); got.status != http.StatusUnauthorized {
		t.Errorf("the first of 21 sessions is answered %s", got)
	}
	if got := second.do(http.MethodGet, "/portal", nil); got.status != http.StatusOK {
		t.Errorf("the second of 21 sessions is answered %s", got)
	}
}
