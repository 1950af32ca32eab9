package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/eventhook/eventhook/internal/cli/clitest"
	"github.com/eventhook/eventhook/internal/pgtest"
)

// The test runs the commands of the page unchanged: those of the user on this host, and those of the
// machine in Berlin in a network of its own, from which only the gateway can be reached.
func TestAgentsPage(t *testing.T) {
	t.Parallel()
	stripe := libraries(t)
	gateway := startInstance(t, pgtest.New(t))
	berlin := newPrivateNetwork(t, gateway.url, "4242", "4243")
	user := startTerminal(t, userFolder(t, stripe, true), "EVENTHOOK_SERVER="+gateway.url, (*exec.Cmd).Start)
	inside := startTerminal(t, userFolder(t, stripe, false), "EVENTHOOK_SERVER="+berlin.gateway, berlin.start)
	blocks := func(heading string) []string { return pageBlocks(t, "docs/agents.md", heading) }
	user.run(blocks("### On your computer")[0])
	copyFile(t, filepath.Join(user.Dir, "berlin.env"), filepath.Join(inside.Dir, "berlin.env"))
	inside.run(blocks("### On the machine that the gateway cannot reach")[0])
	clitest.Eventually(t, "the services listen", func() bool {
		got := inside.out.String()
		return strings.Contains(got, "The service listens") && strings.Contains(got, "Receiving at ")
	})
	berlin.wantUnreachable(t)
	user.run(blocks("### The first webhook")[0])
	clitest.WantInOrder(t, user.out.String(), "The gateway answered 200", `"status":"accepted"`, "status           delivered",
		"Published ", "status        success", "berlin  online")
	clitest.Eventually(t, "both services have verified their requests", func() bool {
		got := inside.out.String()
		return strings.Contains(got, "Stripe's library verified payment_intent.succeeded pi_1\n") && strings.Contains(got, "  verified\n")
	})
	for i, block := range blocks("### When the agent is away") {
		[]*shellTerminal{inside, user}[i%2].run(block)
	}
	clitest.WantInOrder(t, inside.out.String(), "stopped", "reported=2 unreported=0", "connected")
	clitest.WantInOrder(t, user.out.String(), "berlin  online", "status        pending", "status        success")
	if got := inside.out.String(); strings.Contains(got, "refused") || strings.Contains(got, "ehk_") {
		t.Errorf("the machine printed a refusal or a key:\n%s", got)
	}
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	raw, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, raw, 0o600); err != nil {
		t.Fatal(err)
	}
}
