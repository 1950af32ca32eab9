package main

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/eventhook/eventhook/internal/cli/clitest"
	"github.com/eventhook/eventhook/internal/pgtest"
)

// agentProgram is a process of "eventhook agent".
type agentProgram struct {
	*exec.Cmd
	log *clitest.Buffer
}

// startAgent starts an agent of a gateway that may send to the URL allow, with more flags.
func (i *instance) startAgent(key, allow string, more ...string) *agentProgram {
	i.t.Helper()
	args := append([]string{"agent", "--server", i.url, "--tenant", "acme", "--listen", "", "--lease", "5s", "--allow", allow}, more...)
	a := &agentProgram{exec.Command(os.Args[0], args...), &clitest.Buffer{}}
	a.Env = append(os.Environ(), "EVENTHOOK_KEY="+key, "EVENTHOOK_TEST_AS_MAIN=1")
	a.Stderr = a.log
	if err := a.Start(); err != nil {
		i.t.Fatal(err)
	}
	i.t.Cleanup(func() { _ = a.Process.Kill() })
	return a
}

// A signed delivery reaches a service through the program; a destination that it does not allow gets
// nothing. SIGTERM ends the program with the exit code 0.
func TestTheAgentProgramSendsDeliveries(t *testing.T) {
	t.Parallel()
	gateway, inside, forbidden := startInstance(t, pgtest.New(t)), newSubscriber(t), newSubscriber(t)
	key := gateway.newTestAgent("berlin", "env:prod").key
	_, secret := gateway.subscribe(inside.url, "paid", forAgents)
	inside.setSecrets(secret)
	gateway.subscribe(forbidden.url, "refused", `"target_labels":["env:prod"],"retry":{"max_retries":0}`)
	agent := gateway.startAgent(key, inside.url)
	paid, refused := gateway.mustPublish("paid", 20), gateway.mustPublish("refused", 1)
	for _, event := range paid {
		gateway.wantDelivery(event, "success", 1)
	}
	gateway.wantDelivery(refused[0], "dead", 1)
	if err := agent.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := agent.Wait(); err != nil || !strings.Contains(agent.log.String(), "reported=21 unreported=0") || strings.Contains(agent.log.String(), key) {
		t.Errorf("the agent ended with %v and the log\n%s\nwant 21 reported results, and no key", err, agent.log)
	}
}

// heldRequests are requests that a receiver does not answer before the test ends the hold.
type heldRequests struct {
	hold    hang
	running atomic.Int64
	broken  atomic.Int64 // their connections were closed
}

func (h *heldRequests) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.running.Add(1)
	defer h.running.Add(-1)
	h.hold.ServeHTTP(w, r)
	if r.Context().Err() != nil {
		h.broken.Add(1)
	}
}

// Ten agents with one label have requests at the same time. One of them is killed: another agent sends its
// deliveries when their leases end, and an expired lease is no attempt.
func TestTenAgentsShareTheWorkOfOneLabel(t *testing.T) {
	t.Parallel()
	const agents, slots = 10, 2
	gateway, inside := startInstance(t, pgtest.New(t)), newSubscriber(t)
	held := &heldRequests{hold: make(hang)}
	gateway.subscribe(inside.url, "paid", `"target_labels":["env:prod"],"max_in_flight":20,`+quickRetry)
	var all []*agentProgram
	for n := range agents {
		key := gateway.newTestAgent(fmt.Sprint("berlin-", n), "env:prod").key
		all = append(all, gateway.startAgent(key, inside.url, "--lease", "12s", "--concurrency", fmt.Sprint(slots)))
	}
	for _, a := range all {
		clitest.Eventually(t, "the agent is connected", func() bool { return strings.Contains(a.log.String(), "connected") })
	}
	for _, event := range gateway.mustPublish("paid", agents*slots) { // each success allows one more request at once
		gateway.wantDelivery(event, "success", 1)
	}
	before := inside.count(requestsOf)
	inside.setHandler(held.ServeHTTP)
	events := gateway.mustPublish("paid", agents*slots)
	clitest.Eventually(t, "each slot of each agent has a request", func() bool { return held.running.Load() == agents*slots })
	if err := all[0].Process.Kill(); err != nil {
		t.Fatal(err)
	}
	clitest.Eventually(t, "the killed agent's requests are broken", func() bool { return held.broken.Load() == slots })
	close(held.hold)
	for _, event := range events {
		gateway.wantDelivery(event, "success", 1)
	}
	if got := inside.count(requestsOf) - before; got != agents*slots+slots {
		t.Errorf("got %d requests, want one for each delivery, and a second one for the %d of the killed agent", got, slots)
	}
	for n, a := range all[1:] {
		if err := a.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if err := a.Wait(); err != nil || !strings.Contains(a.log.String(), "unreported=0") {
			t.Errorf("agent %d ended with %v and the log\n%s\nwant no unreported delivery", n+1, err, a.log)
		}
	}
}

// A gateway that rejects the agent ends the program with exit code 1 and the likely reason, so that its
// service starts it again.
func TestTheAgentProgramSaysWhyItIsRejected(t *testing.T) {
	t.Parallel()
	gateway := startInstance(t, pgtest.New(t))
	key := gateway.newTestAgent("berlin", "env:prod").key
	for _, c := range []struct{ claim, key, tenant, want string }{
		{"an unknown key", "ehk_unknown", "acme", "the key is not valid: the agent was deleted, or its key was rotated"},
		{"the admin key", testAdminKey, "acme", "the key is not the key of an agent"},
		{"another tenant", key, "nowhere", `no access to the tenant "nowhere", or the tenant does not exist`},
	} {
		a := gateway.startAgent(c.key, "http://10.0.0.0/8", "--tenant", c.tenant)
		_ = a.Wait()
		if code := a.ProcessState.ExitCode(); code != 1 || !strings.Contains(a.log.String(), c.want) || strings.Contains(a.log.String(), c.key) {
			t.Errorf("%s: got exit code %d and\n%s\nwant 1, %q and no key", c.claim, code, a.log, c.want)
		}
	}
}
