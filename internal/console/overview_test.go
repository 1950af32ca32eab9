package console_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/eventhook/eventhook/client"
)

func someTraffic() []client.TrafficPoint {
	var points []client.TrafficPoint
	for i := range 60 {
		points = append(points, client.TrafficPoint{At: today.Add(time.Duration(i-60) * time.Minute), Received: 600, Sent: 300, LatencyP50Ms: new(4.0), LatencyP99Ms: new(31.0)})
	}
	return points
}

func TestOverviewShowsWhatNeedsAPersonFirst(t *testing.T) {
	f := newFixture(t)
	f.answer("GET "+T+"/overview", client.Overview{AsOf: today, WindowSeconds: 3600, StepSeconds: 60, Series: someTraffic(), SourcesCount: 1, SubscriptionsCount: 3,
		Totals: client.TrafficTotals{Received: 36000, Sent: 18000, SuccessRatio: new(0.99999)},
		Attention: []client.AttentionItem{{Type: client.AttentionItemTypeSubscriptionDisabled, Severity: "critical", ResourceType: "subscription", ResourceID: "s1",
			Summary: "billing is disabled and has missed 41 deliveries.", Reason: attack, Since: new(today.Add(-12 * time.Minute))}},
		Sources:       []client.SourceOverview{{Slug: "github", Name: attack, IsEnabled: true, Received: 7200, Refused: 38}},
		Subscriptions: []client.SubscriptionOverview{{ID: "s1", Name: "billing", Status: "disabled", LastError: attack, MissedCount: 41}}})
	page := f.get("/console/t/acme").is(http.StatusOK).lacks("<script>alert").shows("billing is disabled", "12 min ago", "10/s", "99.99 %", "2/s", "and 2 other subscriptions",
		`href="/console/t/acme/subscriptions/s1"`, `aria-label="Events per second; in: last 10/s`)
	if strings.Index(page.body, "Needs attention") > strings.Index(page.body, "Traffic") {
		t.Error("the numbers come before what needs a person")
	}
}

func TestQuietOverviewSaysThatAllIsWell(t *testing.T) {
	f := newFixture(t)
	f.answer("GET "+T+"/overview", client.Overview{AsOf: today, WindowSeconds: 3600, StepSeconds: 60})
	f.get("/console/t/acme").is(http.StatusOK).shows("Nothing needs a person", "No traffic in this window", "Set up a source")
}

func TestOverviewOfAllTenantsIsForAdmins(t *testing.T) {
	admin := newFixtureOf(t, client.Identity{Type: "admin", Name: "admin"})
	admin.answer("GET /api/admin/overview", client.GatewayOverview{AsOf: today, WindowSeconds: 3600, StepSeconds: 60,
		Attention: []client.AttentionItem{{Type: client.AttentionItemTypeDeliveriesDead, Tenant: new("acme"), Summary: "41 deliveries are dead.", ResourceType: "delivery"}},
		Tenants:   []client.TenantOverview{{Slug: "acme", Name: "Acme", Status: "active", AttentionCount: 1}}})
	admin.get("/console").is(http.StatusOK).shows(`href="/console/t/acme/deliveries/dead"`, `href="/console/t/acme"`)
	newFixture(t).get("/console").redirects("/console/t/acme")
}

func TestSearchOpensTheOnlyResult(t *testing.T) {
	f := newFixture(t)
	f.answer("GET "+T+"/lookup", client.LookupFound{Items: []client.LookupItem{{Type: "route", ID: "r1", SourceSlug: new("github")}}})
	f.get("/console/t/acme/search?id=r1").redirects("/console/t/acme/sources/github/routes/r1")
	f.answer("GET "+T+"/lookup", client.LookupFound{Items: []client.LookupItem{{Type: "event", ID: "e1", Label: attack}, {Type: "delivery", ID: "d1"}}})
	f.get("/console/t/acme/search?id=evt").is(http.StatusOK).lacks("<script>alert").shows(`href="/console/t/acme/events/e1"`, `href="/console/t/acme/deliveries/d1"`)
	f.answer("GET "+T+"/lookup", client.LookupFound{})
	f.get("/console/t/acme/search?id=" + "%22%3E%3Cscript%3Ealert(1)%3C/script%3E").is(http.StatusOK).lacks("<script>alert").shows("Nothing has this id")
}

func TestAdminsSearchInAllTenants(t *testing.T) {
	admin := newFixtureOf(t, client.Identity{Type: "admin", Name: "admin"})
	admin.answer("GET /api/admin/lookup", client.LookupFoundOfTenants{Items: []client.LookupItemOfTenant{
		{Type: "event", ID: "e1", Tenant: "acme", Label: attack}, {Type: "source", ID: "github", Tenant: "globex"}}})
	admin.get("/console/search?id=e").is(http.StatusOK).lacks("<script>alert").shows(`href="/console/t/acme/events/e1"`, `href="/console/t/globex/sources/github"`, "2 results")
	admin.answer("GET /api/admin/lookup", client.LookupFoundOfTenants{Items: []client.LookupItemOfTenant{{Type: "event", ID: "e1", Tenant: "acme"}}})
	admin.get("/console/search?id=e1").redirects("/console/t/acme/events/e1")
	newFixture(t).get("/console/search?id=e1").redirects("/console/t/acme/search?id=e1")
}

func TestEachAttentionItemLeadsToThePageToActOn(t *testing.T) {
	items := []client.AttentionItem{
		{Type: client.AttentionItemTypeQuotaNearlyUsed, ResourceType: "tenant", Reason: "max_events_per_day", Summary: "91 % of a quota is used."},
		{Type: client.AttentionItemTypeExecutionsDead, ResourceType: "execution", ResourceID: "x1"},
		{Type: client.AttentionItemTypeAgentOffline, ResourceType: "agent", ResourceID: "a1"},
		{Type: client.AttentionItemTypeRequestsRefused, ResourceType: "source", ResourceID: "github", Reason: "mismatch"}}
	overview := client.Overview{AsOf: today, WindowSeconds: 3600, StepSeconds: 60, Attention: items}
	hrefs := []string{`href="/console/t/acme/work/x1"`, `href="/console/t/acme/agents/a1"`, `href="/console/t/acme/sources/github"`, "No secret matched"}
	f := newFixture(t)
	f.answer("GET "+T+"/overview", overview)
	f.get("/console/t/acme").is(http.StatusOK).shows(hrefs...).lacks("/console/tenants/acme", "max_events_per_day")
	admin := newFixtureOf(t, client.Identity{Type: "admin"})
	admin.answer("GET "+T+"/overview", overview)
	admin.get("/console/t/acme").is(http.StatusOK).shows(hrefs...).shows(`href="/console/tenants/acme"`)
}

func TestReadersOpenWhatOthersRecover(t *testing.T) {
	overview := client.Overview{AsOf: today, WindowSeconds: 3600, StepSeconds: 60, Attention: []client.AttentionItem{
		{Type: client.AttentionItemTypeCircuitOpen, ResourceType: "subscription", ResourceID: "s1"},
		{Type: client.AttentionItemTypeHandshakeWaiting, ResourceType: "source", ResourceID: "github"}}}
	for who, acts := range map[*client.Identity][]string{
		new(keyOf("acme", "read", "manage")): {"Recover<", "Finish set-up<"},
		new(keyOf("acme", "read")):           {"Open<"},
	} {
		f := newFixtureOf(t, *who)
		f.answer("GET "+T+"/overview", overview)
		page := f.get("/console/t/acme").is(http.StatusOK).shows(acts...)
		if len(acts) == 1 {
			page.lacks("Recover<", "Finish set-up<")
		}
	}
}

func TestSectionsWithoutATenantLeadToTheTenantOfTheKey(t *testing.T) {
	newFixture(t).get("/console/events?status=dead").redirects("/console/t/acme/events?status=dead")
	newFixtureOf(t, client.Identity{Type: "admin"}).get("/console/events").redirects("/console/tenants")
	newFixture(t).get("/console/nonsense").is(http.StatusNotFound).shows("No page of the console has this address")
}
