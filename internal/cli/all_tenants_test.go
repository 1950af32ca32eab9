package cli

import (
	"strings"
	"testing"

	"github.com/eventhook/eventhook/internal/cli/clitest"
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

func TestListsOfAllTenantsNameTheTenants(t *testing.T) {
	for command, c := range map[string]struct{ answer, prints string }{
		"subscription list --all-tenants":                     {`{"items":[` + aSubscription + `,"tenant":"shop"},` + aSubscription + `,"is_operator":true}],"next_cursor":null}`, "TENANT NAME shop billing (operator) billing"},
		"subscription list --operator":                        {`{"items":[` + aSubscription + `,"is_operator":true}],"next_cursor":null}`, "NAME billing"},
		"subscription get --operator " + someID:               {aSubscription + `,"is_operator":true,"tenants":["shop","toys"]}`, "events of shop, toys"},
		"subscription get latest --operator":                  {`{"items":[` + aSubscription + `}],"next_cursor":null}`, ""},
		"delivery list --all-tenants":                         {`{"items":[` + aDelivery + `,"tenant":"shop"}],"next_cursor":null}`, "TENANT ID shop d1 billing failed"},
		"subscription deliveries --operator " + someID:        {`{"items":[` + aDelivery + `,"tenant":"shop"}],"next_cursor":null}`, "TENANT ID shop d1 billing failed"},
		"subscription replay --operator --since 1h " + someID: {`{"replay_id":"r1","estimated":5}`, "eventhook subscription replays " + someID + " r1 --operator"},
	} {
		t.Run(command, func(t *testing.T) {
			got := startFakeGateway(t, 200, c.answer)
			t.Setenv(input.TenantVariable, "")
			out := runCommand(strings.Fields(command)...)
			if out.Code != 0 {
				t.Fatalf("got %+v, want success without a tenant", out)
			}
			clitest.WantInOrder(t, out.Stdout, strings.Fields(c.prints)...)
			for _, r := range *got {
				if !strings.HasPrefix(r.uri, "/api/admin/") {
					t.Errorf("called %s, want operations of the admin only", r.uri)
				}
			}
		})
	}
}

func TestAKeyThatIsNotTheAdminKeyIsNamed(t *testing.T) {
	for _, command := range []string{"subscription list --operator", "subscription get ops --operator", "delivery list --all-tenants", "event list --all-tenants"} {
		startFakeGateway(t, 403, `{"title":"Forbidden","status":403,"detail":"This operation requires the admin key."}`)
		out := runCommand(strings.Fields(command)...)
		if out.Code != ExitFailed || !strings.Contains(out.Stderr, "requires the admin key") || !strings.Contains(out.Stderr, "The API key from "+input.KeyVariable+" is not the admin key") {
			t.Errorf("eventhook %s: got %+v, want which key was used and that it is not the admin key", command, out)
		}
	}
}
