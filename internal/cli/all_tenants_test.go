package cli

import (
	"strings"
	"testing"

	"github.com/eventhook/eventhook/internal/cli/input"
)

func TestTheAdminListsEventsOfAllTenants(t *testing.T) {
	got := startFakeGateway(t, 200, `{"items":[{"id":"`+someID+`","tenant":"shop","source":"github","origin":"source","event_type":"push","status":"dead","received_at":"2026-03-10T12:00:00Z"}],"next_cursor":null}`)
	t.Setenv(input.TenantVariable, "")
	out := runCommand("event", "list", "--all-tenants", "--status", "dead", "--type", "pu*")
	if uri := (*got)[0].uri; !strings.HasPrefix(uri, "/api/admin/events?") || !strings.Contains(uri, "status=dead") || strings.Contains(uri, "tenant=") {
		t.Errorf("called %s, want the list of all tenants with the filters", uri)
	}
	if out.Code != 0 || !strings.Contains(out.Stdout, "TENANT") || !strings.Contains(out.Stdout, "shop") || !strings.Contains(out.Stdout, "github") {
		t.Errorf("got %+v, want a table with the tenant and the source", out)
	}
	if out := runCommand("event", "list", "--all-tenants", "--tenant", "shop"); out.Code != ExitUsage {
		t.Errorf("--all-tenants with --tenant: got %+v, want a usage error", out)
	}
}

func TestATenantThatDoesNotExistIsNamed(t *testing.T) {
	startFakeGateway(t, 404, `{"title":"Not Found","status":404,"detail":"no such tenant"}`)
	out := runCommand("event", "list", "--tenant", "nosuch")
	if out.Code != ExitFailed || !strings.Contains(out.Stderr, `the tenant "nosuch" does not exist`) || !strings.Contains(out.Stderr, "eventhook tenant list") {
		t.Errorf("got %+v, want the name of the tenant and what to do", out)
	}
}
