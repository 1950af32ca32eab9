package portal_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/client"
	"github.com/eventhook/eventhook/internal/branding"
	"github.com/eventhook/eventhook/internal/portal"
	"github.com/eventhook/eventhook/internal/session"
)

// foreign are ids that the customer must not reach, by what they name.
var foreign = map[string]string{
	"another customer":                "01a2c84f-0000-7000-8000-000000000002",
	"a scope with the same beginning": "01a2c84f-0000-7000-8000-000000000003",
	"a scope above":                   "01a2c84f-0000-7000-8000-000000000004",
	"no scope":                        "01a2c84f-0000-7000-8000-000000000005",
	"the customer and another one":    "01a2c84f-0000-7000-8000-000000000006",
	"the operator":                    "01a2c84f-0000-7000-8000-000000000007",
	"every scope":                     "01a2c84f-0000-7000-8000-000000000008",
	"another tenant":                  "01a2c84f-0000-7000-8000-000000000009",
	"no id":                           "everything",
	"a path":                          "..%2f..%2fsources",
	"a delivery of another customer":  "01a2c84f-0000-7000-8000-0000000000f1",
	"a delivery of a route":           "01a2c84f-0000-7000-8000-0000000000f2",
	"a delivery of a route with a subscription": "01a2c84f-0000-7000-8000-0000000000f3",
}

// prepareForeign has the API answer to the ids of the tenant that are not of the customer, with
// success also for every change.
func (f *fixture) prepareForeign() {
	scopes := map[string][]string{"another customer": {"customer-43"}, "a scope with the same beginning": {scope + "0", scope + "-b"}, "a scope above": {"customer-*"},
		"no scope": nil, "the customer and another one": {scope, "customer-43"}, "the operator": {scope}, "every scope": {"*"}}
	for name, filter := range scopes {
		id := foreign[name]
		f.answer("GET "+T+"/subscriptions/"+id, client.Subscription{ID: id, Name: "Foreign", ScopeFilter: filter, IsOperator: new(name == "the operator")})
		for _, part := range []string{"stats", "deliveries", "replays"} {
			f.answer("GET "+T+"/subscriptions/"+id+"/"+part, map[string]any{"items": []any{}})
		}
	}
	f.answer("GET "+T+"/deliveries/"+foreign["a delivery of another customer"], client.DeliveryDetail{ID: foreign["a delivery of another customer"], SubscriptionID: new(foreign["another customer"])})
	f.answer("GET "+T+"/deliveries/"+foreign["a delivery of a route"], client.DeliveryDetail{ID: foreign["a delivery of a route"], RouteID: new(own)})
	both := foreign["a delivery of a route with a subscription"]
	f.answer("GET "+T+"/deliveries/"+both, client.DeliveryDetail{ID: both, RouteID: new(own), SubscriptionID: new(own)})
}

// withIDs returns the method and the path of a pattern with an id in place of each {name}.
func withIDs(pattern, id string) (method, path string) {
	method, path, _ = strings.Cut(pattern, " ")
	for _, name := range []string{"{endpoint}", "{delivery}"} {
		path = strings.ReplaceAll(path, name, id)
	}
	return method, strings.ReplaceAll(strings.ReplaceAll(path, "{replay}", ownReplay), "{$}", "")
}

func (f *fixture) open(method, path string) reply {
	f.Helper()
	if method == http.MethodGet {
		return f.get(path)
	}
	return f.post(path, url.Values{"name": {"x"}, "url": {"https://x.example"}, "event_types": {"order.created"}, "version": {"3"}, "since": {"2026-01-31T00:00"}})
}

// csrfToken matches the tokens of forms, which differ on each page.
var csrfToken = regexp.MustCompile(`"[\w-]{86}"`)

// without returns a page without an address and without tokens.
func (r reply) without(path string) string {
	return csrfToken.ReplaceAllString(strings.ReplaceAll(r.body, path, ""), `""`)
}

func TestNoPageShowsOrChangesWhatIsNotOfTheCustomer(t *testing.T) {
	f := newFixture(t)
	f.prepareForeign()
	unknown := f.get("/portal/endpoints/01a2c84f-0000-7000-8000-00000000ffff").is(http.StatusNotFound)
	checked := 0
	for _, pattern := range portal.PagePatterns() {
		if !strings.Contains(pattern, "{endpoint}") && !strings.Contains(pattern, "{delivery}") {
			continue
		}
		for name, id := range foreign {
			f.api.calls = nil
			method, path := withIDs(pattern, id)
			page := f.open(method, path).is(http.StatusNotFound).lacks("Foreign")
			if got, want := page.without(path), unknown.without("/portal/endpoints/01a2c84f-0000-7000-8000-00000000ffff"); got != want {
				t.Errorf("%s %s (%s) differs from the page of an unknown id:\n%s", method, path, name, got)
			}
			for _, c := range f.api.calls {
				if c.isChange() || strings.Contains(c.Call, "/request") {
					t.Errorf("%s %s (%s) called %s", method, path, name, c.Call)
				}
			}
			checked++
		}
	}
	if checked < 14*len(foreign) {
		t.Errorf("checked %d pages, want at least %d", checked, 14*len(foreign))
	}
}

func TestLinkForReadingChangesNothing(t *testing.T) {
	f := newFixtureOf(t, branding.Config{})
	f.enter(f.link(true))
	f.get("/portal/nothing").is(http.StatusNotFound)
	for _, pattern := range portal.PagePatterns() {
		method, path := withIDs(pattern, own)
		path = strings.Replace(path, "/deliveries/"+own, "/deliveries/"+ownDelivery, 1)
		f.api.calls = nil
		switch {
		case path == "/portal/leave":
		case path == "/portal/theme":
			f.open(method, path).redirects("/portal")
		case method == http.MethodPost:
			f.open(method, path).is(http.StatusForbidden).shows("Ask for a link that permits changes")
			if len(f.api.calls) > 0 {
				t.Errorf("%s called %v, want no call", pattern, f.api.calls)
			}
		default:
			page := f.open(method, path).lacks("Add endpoint<", "/rotate", "/delete", "/pause", "/retry", "Send again<", "Start the replay<", "Replay…", "Recover<")
			if page.status != http.StatusOK && page.status != http.StatusSeeOther {
				t.Errorf("%s: status %d, want a page", pattern, page.status)
			}
		}
		f.changesNothing()
	}
}

func TestPortalCallsTheAPIOfItsTenantWithItsGrantOnly(t *testing.T) {
	for _, isReadOnly := range []bool{false, true} {
		f := newFixtureOf(t, branding.Config{})
		f.enter(f.link(isReadOnly))
		for _, pattern := range portal.PagePatterns() {
			if method, path := withIDs(pattern, own); method == http.MethodGet {
				f.open(method, strings.Replace(path, "/deliveries/"+own, "/deliveries/"+ownDelivery, 1))
			}
		}
		want := map[bool]int{false: 2, true: 1}[isReadOnly]
		for _, c := range f.api.calls {
			g := c.Session.Grant
			if !strings.Contains(c.Call, " "+T+"/") || g == nil || g.Name != "portal customer-42" || len(g.Tenants) != 1 || len(g.Tenants["acme"]) != want || g.Admin ||
				g.AdminReadOnly || g.Customer == nil || g.Customer.Scope != scope || g.Customer.MaxEndpoints != 20 || c.Session.Via != "portal" {
				t.Errorf("call %s with grant %+v via %q, want one of the customer of acme with %d scopes via portal", c.Call, g, c.Session.Via, want)
			}
		}
	}
}

func TestListHasNoEndpointOfAnotherCustomer(t *testing.T) {
	f := newFixture(t)
	f.answer("GET "+T+"/subscriptions", client.SubscriptionPage{Items: []client.Subscription{{ID: foreign["no scope"], Name: "Foreign"}}})
	f.get("/portal").is(http.StatusOK).lacks("Foreign").shows("No endpoints yet")
	if got := f.called("GET " + T + "/subscriptions").Query; got != "limit=20&scope=customer-42" {
		t.Errorf("query, got %q, want one for the scope", got)
	}
}

// A grant of an earlier version does not restrict the API to the customer.
func TestSessionWithoutACustomerIsRefused(t *testing.T) {
	f := newFixtureOf(t, branding.Config{})
	w := httptest.NewRecorder()
	_, err := f.sessions.Start(t.Context(), w, f.request(http.MethodGet, "/portal", nil), session.Session{TenantSlug: "acme", Scope: scope,
		ExpiresAt: today.Add(time.Hour), Grant: &eventhook.Grant{Name: "portal " + scope, Tenants: map[string][]eventhook.Scope{"acme": {eventhook.ScopeRead}}}})
	if err != nil {
		t.Fatal(err)
	}
	f.browser["session"] = w.Result().Cookies()[0]
	f.get("/portal").is(http.StatusUnauthorized).lacks("Production")
	if len(f.api.calls) > 0 {
		t.Errorf("the page called %v, want nothing", f.api.calls)
	}
}
