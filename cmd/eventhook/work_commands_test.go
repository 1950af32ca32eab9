package main

import (
	"net/http"
	"testing"

	"github.com/eventhook/eventhook/internal/cli/clitest"
	"github.com/eventhook/eventhook/internal/pgtest"
)

// TestThePageOnWorkersStartsAndListsWork runs the commands of docs/workers.md unchanged. Before the
// list of dead work, a worker fails the work for good.
func TestThePageOnWorkersStartsAndListsWork(t *testing.T) {
	gateway := startInstance(t, pgtest.New(t))
	const prepare = "PATH=$PWD/bin:$PATH EVENTHOOK_TENANT=acme; export PATH EVENTHOOK_TENANT\n"
	block := func(heading string) string { return pageBlocks(t, "docs/workers.md", heading)[0] + "\n" }
	got := gateway.shell(t, prepare+block("## Lifecycle events")+block("## Start work without a webhook"))
	clitest.WantInOrder(t, got, "failures", "task.dead", "send-invoice", "invoice-7", "send-reminder", "-10")
	const work = "/work/"
	var claimed struct{ Items []struct{ ID string } }
	if status := gateway.call("POST", work+"claim", map[string]any{}, &claimed); status != http.StatusOK || len(claimed.Items) != 1 {
		t.Fatalf("claim: got %d, %+v, want the invoice", status, claimed)
	}
	id := claimed.Items[0].ID
	failure := map[string]any{"lease_token": 1, "error": "no such customer", "retryable": false}
	if status := gateway.call("POST", work+id+"/fail", failure, nil); status != http.StatusOK {
		t.Fatalf("fail: got %d", status)
	}
	got = gateway.shell(t, prepare+block("## Work on the command line"))
	clitest.WantInOrder(t, got, id, "dead", "no such customer", "cancelled", "pending", "stripe:pi_3PX", "resolved", `{"amount":4200}`)
	clitest.Eventually(t, "the lifecycle event is delivered", func() bool {
		var list struct{ Items []any }
		gateway.call("GET", "/deliveries?event_type=task.dead", nil, &list)
		return len(list.Items) == 1
	})
}
