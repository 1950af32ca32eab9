package console_test

import (
	"net/http"
	"testing"

	"github.com/eventhook/eventhook/client"
)

func TestAuditShowsChangesReadably(t *testing.T) {
	f := newFixture(t)
	f.answer("GET "+T+"/audit", client.AuditEntryPage{Items: []client.AuditEntry{{ID: "x", At: today, Tenant: new("acme"), Action: "route.updated",
		Actor: client.AuditActor{Type: "api_key", Name: attack}, Via: new("console"), RequestID: new("req-7"), CorrelationID: new("cor"),
		Resource: client.AuditResource{Type: "route", ID: new("r1"), Name: "github/pushes"},
		Changes:  []client.AuditedChange{{Field: "name", From: "old", To: attack}, {Field: "priority", From: 1}, {Field: "targets", To: []string{"a"}}}}}})
	f.get("/console/t/acme/audit?action=route.updated&trace_id=a&request_id=b&correlation_id=c").is(http.StatusOK).lacks("<script>alert").
		shows("<del><code>old</code></del>", "removed", `[&#34;a&#34;]`, "/console/t/acme/sources/github/routes/r1", "in the console", "req-7", "correlation_id=cor")
	if got, want := f.called("GET "+T+"/audit").Query, "action=route.updated&correlation_id=c&limit=50&request_id=b&trace_id=a"; got != want {
		t.Errorf("query, got %q, want %q", got, want)
	}
}

func TestAuditLinksEachResourceToItsPage(t *testing.T) {
	for of, want := range map[string]string{"source": "/console/t/acme/sources/n", "event_type": "/console/t/acme/types/n", "api_key": "/console/t/acme/keys",
		"tenant": "/console/tenants/acme", "subscription": "/console/t/acme/subscriptions/i", "agent": "/console/t/acme/agents/i"} {
		f := newFixture(t)
		entry := client.AuditEntry{Tenant: new("acme"), Action: of + ".updated", Resource: client.AuditResource{Type: of, ID: new("i"), Name: "n"}}
		f.answer("GET "+T+"/audit", client.AuditEntryPage{Items: []client.AuditEntry{entry}})
		f.get("/console/t/acme/audit").shows(`href="` + want + `">n<`)
		entry.Action = of + ".deleted"
		f.answer("GET "+T+"/audit", client.AuditEntryPage{Items: []client.AuditEntry{entry}})
		f.get("/console/t/acme/audit").lacks(`">n<`)
	}
}

func TestAuditOfAllTenantsIsForAdmins(t *testing.T) {
	f := newFixtureOf(t, adminOf)
	f.answer("GET /api/admin/audit", client.AuditEntryPage{Items: []client.AuditEntry{{Tenant: new("acme"), Action: "tenant.closed"}}, NextCursor: new("n")})
	f.get("/console/audit?tenant=acme").is(http.StatusOK).shows("/console/t/acme/audit", "cursor=n")
	if got, want := f.called("GET /api/admin/audit").Query, "limit=50&tenant=acme"; got != want {
		t.Errorf("query, got %q, want %q", got, want)
	}
	g := newFixture(t)
	g.answer("GET /api/admin/audit", &client.Problem{Title: "Forbidden", Status: http.StatusForbidden, Detail: "This needs the admin key."})
	g.get("/console/audit").is(http.StatusForbidden).shows("This needs the admin key.")
}
