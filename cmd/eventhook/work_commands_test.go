package main

import (
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/eventhook/eventhook/internal/cli/clitest"
	"github.com/eventhook/eventhook/internal/pgtest"
)

// workersBlock returns the first block of commands under a heading of docs/workers.md.
func workersBlock(t *testing.T, heading string) string {
	t.Helper()
	raw, err := os.ReadFile("../../docs/workers.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(raw), "\n"+heading+"\n")
	_, block, begun := strings.Cut(section, "\n```sh\n")
	block, _, ended := strings.Cut(block, "\n```\n")
	if !found || !begun || !ended {
		t.Fatalf("docs/workers.md has no commands under %q", heading)
	}
	return block
}

// TestThePageOnWorkersStartsAndListsWork runs the commands of docs/workers.md unchanged. Before the
// list of dead work, a worker fails the work for good.
func TestThePageOnWorkersStartsAndListsWork(t *testing.T) {
	gateway := startInstance(t, pgtest.New(t))
	const prepare = "PATH=$PWD/bin:$PATH EVENTHOOK_TENANT=acme; export PATH EVENTHOOK_TENANT\n"
	got := gateway.shell(t, prepare+workersBlock(t, "## Lifecycle events")+"\n"+workersBlock(t, "## Start work without a webhook"))
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
	got = gateway.shell(t, prepare+workersBlock(t, "## Work on the command line"))
	clitest.WantInOrder(t, got, id, "dead", "no such customer", "cancelled", "pending", "stripe:pi_3PX", "resolved", `{"amount":4200}`)
	clitest.Eventually(t, "the lifecycle event is delivered", func() bool {
		var list struct{ Items []any }
		gateway.call("GET", "/deliveries?event_type=task.dead", nil, &list)
		return len(list.Items) == 1
	})
}
