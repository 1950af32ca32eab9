package console_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/eventhook/eventhook/client"
)

const acmeTenant = "/api/admin/tenants/acme"

func TestTenantsAreListedAndFiltered(t *testing.T) {
	f := newFixtureOf(t, adminOf)
	f.answer("GET /api/admin/tenants", client.TenantPage{Items: []client.Tenant{{Slug: "acme", Name: attack, Status: "active", MaxEventsPerDay: new(int64(5000))},
		{Slug: "bakery", Name: "The Bakery", Status: "suspended"}}})
	f.get("/console/tenants").is(http.StatusOK).lacks("<script>alert").shows(`data-href="/console/t/acme"`, "/console/tenants/acme", "5\u202f000", "no limit", "suspended")
	f.get("/console/tenants?name=BAKE").shows("bakery").lacks(`data-href="/console/t/acme"`)
	f.get("/console/tenants?name=zzz").shows("No tenant has this name")
}

func TestTenantIsCreated(t *testing.T) {
	f := newFixtureOf(t, adminOf)
	f.get("/console/new-tenant").is(http.StatusOK)
	f.answer("POST /api/admin/tenants", client.Tenant{Slug: "fresh"}, &client.Problem{Title: "Unprocessable", Status: 422, Errors: []client.Fault{{Location: "body.slug", Message: "is taken"}}})
	f.post("/console/new-tenant", url.Values{"slug": {"fresh"}, "name": {"Fresh"}, "max_events_per_day": {"10"}, "max_storage_bytes": {""}}).redirects("/console/t/fresh")
	if got, want := f.called("POST /api/admin/tenants").Body, `{"max_events_per_day":10,"name":"Fresh","slug":"fresh"}`; got != want {
		t.Errorf("body, got %s, want %s", got, want)
	}
	f.post("/console/new-tenant", url.Values{"slug": {attack}}).is(422).shows("is taken").lacks("<script>alert")
}

func TestTenantShowsItsQuotas(t *testing.T) {
	f := newFixtureOf(t, adminOf)
	f.answer("GET "+acmeTenant, client.Tenant{Slug: "acme", Name: attack, Status: "active", MaxEventsPerDay: new(int64(1000))})
	f.answer("GET "+T+"/usage", client.Usage{EventsToday: 950, AsOf: today, EventsResetAt: today.Add(3600e9)})
	f.get("/console/tenants/acme").is(http.StatusOK).lacks("<script>alert", "/purge", "/activate").
		shows("950 of 1\u202f000", "almost used up", "in 1 h", "/suspend", "Type acme to confirm", `max="1000" value="950"`)
}

func TestTenantWithoutUsageIsShown(t *testing.T) {
	f := newFixtureOf(t, client.Identity{Type: "admin_read"})
	f.answer("GET "+acmeTenant, client.Tenant{Slug: "acme", Status: "closed", Closing: &client.TenantClosing{Status: "running", DeliveriesEnded: 7, CorrelationID: "cor"}})
	f.get("/console/tenants/acme").is(http.StatusOK).shows("closed", "correlation_id=cor").lacks("/close", "/purge", "Save")
}

func TestTenantIsUpdated(t *testing.T) {
	f := newFixtureOf(t, adminOf)
	f.answer("GET "+acmeTenant, client.Tenant{Slug: "acme", Name: "Acme", Status: "active"})
	f.answer("PATCH "+acmeTenant, client.Tenant{}, &client.Problem{Title: "Precondition Failed", Status: 412, Detail: "It has changed."})
	f.post("/console/tenants/acme", url.Values{"name": {"A"}, "max_events_per_day": {"5"}, "max_storage_bytes": {""}}).redirects("/console/tenants/acme")
	if got, want := f.called("PATCH "+acmeTenant).Body, `{"max_events_per_day":5,"max_storage_bytes":null,"name":"A"}`; got != want {
		t.Errorf("body, got %s, want %s", got, want)
	}
	f.post("/console/tenants/acme", url.Values{"name": {"mine"}}).is(422).shows("It has changed.", `value="mine"`)
	f.answer("PATCH "+acmeTenant, client.Tenant{})
	f.post("/console/tenants/acme/suspend", nil).redirects("/console/tenants/acme")
	if got, want := f.called("PATCH "+acmeTenant).Body, `{"status":"suspended"}`; got != want {
		t.Errorf("body, got %s, want %s", got, want)
	}
	f.post("/console/tenants/acme/activate", nil).redirects("/console/tenants/acme")
}

func TestTenantIsClosedAndPurgedOnlyIfItsSlugIsTyped(t *testing.T) {
	for act, status := range map[string]client.TenantStatus{"close": "active", "purge": "closed"} {
		f := newFixtureOf(t, adminOf)
		f.answer("GET "+acmeTenant, client.Tenant{Slug: "acme", Status: status})
		f.answer("POST "+acmeTenant+"/"+act, client.Tenant{})
		f.post("/console/tenants/acme/"+act, url.Values{"slug": {"acm"}}).is(422).shows("nothing was changed")
		for _, c := range f.api.calls {
			if strings.HasPrefix(c.Call, "POST") {
				t.Errorf("%s without the slug, got the call %s, want none", act, c.Call)
			}
		}
		f.post("/console/tenants/acme/"+act, url.Values{"slug": {"acme"}}).redirects("/console/tenants/acme")
		f.called("POST " + acmeTenant + "/" + act)
	}
}

func TestPageOfATenantIsRememberedForAdmins(t *testing.T) {
	f := newFixtureOf(t, adminOf)
	f.answer("GET "+T+"/agents", client.AgentPage{})
	if got := f.get("/console/t/acme/agents").header.Get("Set-Cookie"); !strings.HasPrefix(got, "__Secure-eventhook_tenant=acme;") || !strings.Contains(got, "; Secure;") {
		t.Errorf("cookie, got %q, want the tenant, Secure", got)
	}
	if got := f.get("/console/t/none/agents").header.Get("Set-Cookie"); got != "" {
		t.Errorf("cookie of an unknown tenant, got %q, want none", got)
	}
	g := newFixture(t)
	g.answer("GET "+T+"/agents", client.AgentPage{})
	if got := g.get("/console/t/acme/agents").header.Get("Set-Cookie"); got != "" {
		t.Errorf("cookie of a tenant's key, got %q, want none", got)
	}
}
