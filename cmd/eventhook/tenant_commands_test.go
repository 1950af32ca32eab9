package main

import (
	"net/http"
	"strings"
	"testing"

	"github.com/eventhook/eventhook/internal/cli/clitest"
	"github.com/eventhook/eventhook/internal/pgtest"
)

// The operator subscription of the page learns that a tenant was suspended and closed. Its
// deliveries fail, and a replay sends them again.
func TestTheCommandsAboutTenants(t *testing.T) {
	gateway, sink := startDelivering(t, pgtest.New(t)), newOperatorSink(t)
	gateway.at(t, testAdminKey)
	mustRun(t, "tenant create shop")
	shop := gateway.asJSON(testAdminKey, http.StatusOK, "GET", "/api/admin/tenants/shop", "")["id"].(string)

	page := pageCommands(t, runbook, "## Operator subscriptions")
	clitest.WantInOrder(t, runPage(t, &page, "subscription create ops --operator --url https://ops.example/hooks --type 'tenant.*' --from-tenant shop"),
		"ops", "events of", "shop", "tenant.*", "subscription test", "--operator")
	mustRun(t, `subscription update ops --operator --retry {"max_retries":0} --url `+sink.url)
	clitest.WantInOrder(t, runPage(t, &page, "subscription update ops --operator --type 'tenant.*' --type task.cancelled_via_tenant_cascade"),
		"task.cancelled_via_tenant_cascade")
	clitest.WantInOrder(t, runPage(t, &page, "subscription get ops --operator"), "ops", "active", "closed", "shop")
	clitest.WantInOrder(t, runPage(t, &page, "subscription test ops --operator"), "delivered", "yes")
	sink.refuse(true)
	mustRun(t, "tenant suspend shop")
	clitest.Eventually(t, "a delivery is dead", func() bool {
		return strings.Contains(mustRun(t, "subscription deliveries ops --operator --status dead"), "tenant.suspended")
	})
	sink.refuse(false)
	clitest.WantInOrder(t, runPage(t, &page, "subscription deliveries ops --operator --status dead"),
		"TENANT", "shop", "tenant.suspended", "ops", "dead")
	lists := pageCommands(t, runbook, "## Lists of all tenants")
	clitest.WantInOrder(t, runPage(t, &lists, "event list --all-tenants --status dead --since 24h"), "No items")
	clitest.WantInOrder(t, runPage(t, &lists, "delivery list --all-tenants --status dead --since 24h"),
		"TENANT", "shop", "tenant.suspended", "dead")
	clitest.WantInOrder(t, runPage(t, &page, "subscription replay ops --operator --since 24h --missing"),
		"Replay", "subscription replays", "--operator")
	sink.want(t, "tenant.suspended of "+shop)
	clitest.WantInOrder(t, runPage(t, &page, "subscription replays ops --operator latest"), "replay", "queued")
	clitest.WantInOrder(t, runPage(t, &page, "subscription pause ops --operator"), "paused")
	clitest.WantInOrder(t, runPage(t, &page, "subscription resume ops --operator"), "active")
	mustRun(t, "subscription disable ops --operator")
	clitest.WantInOrder(t, runPage(t, &lists, "subscription list --all-tenants --status disabled"), "(operator)", "ops", "disabled")
	mustRun(t, "subscription enable ops --operator")
	clitest.WantInOrder(t, runPage(t, &page, "subscription rotate-secret ops --operator"), "whsec_")
	clitest.WantInOrder(t, runPage(t, &page, "subscription list --operator"), "NAME", "ops")

	closing := pageCommands(t, runbook, "## Close a tenant")
	runPage(t, &closing, "tenant close shop --yes")
	clitest.WantInOrder(t, runPage(t, &closing, "tenant get shop"), "closed", "closing")
	sink.want(t, "tenant.closed of "+shop)
	purge := pageCommands(t, runbook, "## Delete the data of a closed tenant")
	runPage(t, &purge, "tenant purge shop --yes")
	clitest.WantInOrder(t, runPage(t, &purge, "tenant get shop"), "purge")
	clitest.WantInOrder(t, runPage(t, &page, "subscription delete ops --operator --yes"), "deleted")
	for _, rest := range [][]string{page, lists, closing, purge} {
		if len(rest) > 0 {
			t.Errorf("the commands %q of the page have not run", rest)
		}
	}
}

// A tenant's key is refused with the reason.
func TestOperatorCommandsRequireTheAdminKey(t *testing.T) {
	gateway := startInstance(t, pgtest.New(t))
	body := `{"name":"all","scopes":["read","manage"]}`
	key := gateway.asJSON(testAdminKey, http.StatusCreated, "POST", "/api/admin/tenants/acme/keys", body)["key"].(string)
	gateway.at(t, key)
	for _, command := range []string{"subscription list --operator", "subscription delete ops --operator --yes",
		"delivery list --all-tenants", "subscription list --all-tenants"} {
		got := runCommand(strings.Fields(command)...)
		if got.Code == 0 || !strings.Contains(got.Stderr, "requires the admin key") || !strings.Contains(got.Stderr, "is not the admin key") {
			t.Errorf("eventhook %s: got %+v, want the reason and the key that was used", command, got)
		}
	}
}
