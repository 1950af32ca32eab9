package main

import (
	"net/http"
	"testing"
	"time"

	"github.com/eventhook/eventhook/internal/cli/clitest"
	"github.com/eventhook/eventhook/internal/pgtest"
)

// An agent of another tenant gets and settles nothing, although it has the labels.
func TestAnAgentOfAnotherTenantGetsNothing(t *testing.T) {
	t.Parallel()
	gateway, inside := startInstance(t, pgtest.New(t)), newSubscriber(t)
	own := gateway.newTestAgent("berlin", "env:prod")
	gateway.asJSON(testAdminKey, http.StatusCreated, "POST", "/api/admin/tenants", `{"slug":"shop","name":"Shop"}`)
	const shop, acme = "/api/tenants/shop/eventhook/agents", "/api/tenants/acme/eventhook/agents"
	key := gateway.asJSON(testAdminKey, http.StatusCreated, "POST", shop, `{"name":"berlin","labels":["env:prod"]}`)["key"].(string)
	gateway.subscribe(inside.url, "paid", forAgents)
	event := gateway.mustPublish("paid", 1)[0]
	if items := gateway.asJSON(key, http.StatusOK, "POST", shop+"/claim", `{}`)["items"].([]any); len(items) != 0 {
		t.Errorf("an agent of another tenant claimed %v", items)
	}
	gateway.asJSON(key, http.StatusNotFound, "POST", acme+"/claim", `{}`)
	list := own.claim(gateway, 10, 15, 30)
	if len(list) != 1 {
		t.Fatalf("claimed %d, want 1", len(list))
	}
	const result = `{"lease_token":1,"status_code":200,"duration_ms":1}`
	for _, at := range []string{shop, acme} {
		gateway.asJSON(key, http.StatusNotFound, "POST", at+"/deliveries/"+list[0].ID+"/result", result)
	}
	gateway.wantDelivery(event, "acquired", 0)
	own.report(gateway, list[0], http.StatusOK)
	gateway.wantDelivery(event, "success", 1)
}

// An agent that loses a label reports the delivery that it holds, and gets no other one.
func TestLabelsChangeWhileADeliveryIsHeld(t *testing.T) {
	t.Parallel()
	gateway, inside := startInstance(t, pgtest.New(t)), newSubscriber(t)
	var made struct{ ID, Key string }
	gateway.call(http.MethodPost, "/agents", map[string]any{"name": "berlin", "labels": []string{"env:prod"}}, &made)
	agent, other := &testAgent{t, made.Key}, gateway.newTestAgent("paris", "env:prod", "region:eu")
	gateway.subscribe(inside.url, "paid", forAgents)
	events := gateway.mustPublish("paid", 2)
	reported, left := agent.claim(gateway, 1, 15, 30), agent.claim(gateway, 1, 15, 1)
	if len(reported) != 1 || len(left) != 1 {
		t.Fatalf("claimed %+v and %+v, want both deliveries", reported, left)
	}
	if status := gateway.call(http.MethodPatch, "/agents/"+made.ID, map[string]any{"labels": []string{"env:test"}}, nil); status != http.StatusOK {
		t.Fatalf("the change of the labels was answered %d", status)
	}
	if status := agent.report(gateway, reported[0], http.StatusOK); status != http.StatusNoContent {
		t.Errorf("the result of the held delivery was answered %d, want 204", status)
	}
	again := other.claim(gateway, 1, 15, 30)
	if len(again) != 1 || again[0].ID != left[0].ID || len(agent.claim(gateway, 10, 0, 30)) != 0 {
		t.Fatalf("after the lease: claimed %+v, want the delivery by the agent with its labels only", again)
	}
	other.report(gateway, again[0], http.StatusOK)
	for _, event := range events {
		gateway.wantDelivery(event, "success", 1)
	}
}

// Agents wait for deliveries while the gateway is restarted: their claims end with an empty answer at
// once, and the next ones find what was published meanwhile.
func TestAgentsWaitThroughARestart(t *testing.T) {
	t.Parallel()
	dsn := pgtest.New(t)
	gateway, inside := startInstance(t, dsn), newSubscriber(t)
	agent := gateway.newTestAgent("berlin", "env:prod")
	gateway.subscribe(inside.url, "paid", forAgents)
	ended := make(chan []claimed, 3)
	for range cap(ended) {
		go func() { ended <- agent.claim(gateway, 10, 60, 30) }()
	}
	clitest.Eventually(t, "the claims wait", func() bool { return gateway.metric("agent_claims_waiting") == 1 })
	began := time.Now()
	gateway.stop()
	for range cap(ended) {
		if list := <-ended; len(list) != 0 {
			t.Errorf("claimed %+v, want an empty answer", list)
		}
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("the gateway stopped after %s, want at once", took)
	}
	gateway = startInstance(t, dsn)
	go func() { ended <- agent.claim(gateway, 10, 15, 30) }()
	event := gateway.mustPublish("paid", 1)[0]
	list := <-ended
	if len(list) != 1 {
		t.Fatalf("after the restart: claimed %+v, want the delivery", list)
	}
	agent.report(gateway, list[0], http.StatusOK)
	gateway.wantDelivery(event, "success", 1)
}

// The clocks of agents are an hour ahead and an hour behind, and one is set while the agent sends. An
// agent uses durations only, so the times of attempts and leases are those of the gateway.
func TestClocksOfAgentsDoNotCount(t *testing.T) {
	t.Parallel()
	gateway, inside := startInstance(t, pgtest.New(t)), newSubscriber(t)
	agent, other := gateway.newTestAgent("berlin", "env:prod"), gateway.newTestAgent("paris", "env:prod")
	gateway.subscribe(inside.url, "paid", forAgents)
	for _, c := range []struct {
		claim          string
		started, ended time.Duration // of the clock of the agent, against the gateway's
		maxAge         time.Duration // of the attempt
	}{
		{"an hour ahead", time.Hour, time.Hour, 10 * time.Second},
		{"an hour behind", -time.Hour, -time.Hour, 10 * time.Second},
		{"set while it sends", 0, 50 * time.Minute, 5 * time.Minute},
	} {
		event := gateway.mustPublish("paid", 1)[0]
		list := agent.claim(gateway, 1, 15, 30)
		if len(list) != 1 || list[0].LeaseSeconds != 30 {
			t.Fatalf("%s: claimed %+v, want one delivery for 30 s", c.claim, list)
		}
		began := time.Now().Add(c.started)
		status := agent.send(list[0])
		took := time.Now().Add(c.ended).Sub(began)
		result := map[string]any{"lease_token": list[0].LeaseToken, "status_code": status, "duration_ms": took.Milliseconds()}
		if code := agent.call(gateway, "/deliveries/"+list[0].ID+"/result", result, nil); code != http.StatusNoContent {
			t.Fatalf("%s: the result was answered %d, want 204", c.claim, code)
		}
		var d struct {
			Attempts []struct {
				StartedAt time.Time `json:"started_at"`
			}
		}
		gateway.call(http.MethodGet, "/deliveries/"+gateway.deliveryOf(event).ID, nil, &d)
		if age := time.Since(d.Attempts[0].StartedAt); age < 0 || age > c.maxAge {
			t.Errorf("%s: the attempt began %s ago, want at most %s", c.claim, age, c.maxAge)
		}
	}
	gateway.mustPublish("paid", 1)
	began := time.Now()
	first := agent.claim(gateway, 1, 15, 2)
	second := other.claim(gateway, 1, 15, 30)
	if took := time.Since(began); len(first) != 1 || len(second) != 1 || second[0].ID != first[0].ID || took < 1900*time.Millisecond {
		t.Errorf("another agent got the delivery after %s: %+v, want it after the lease of 2 s", took, second)
	}
}

// A thousand waiting claims take no database connection, and a delivery wakes one of them.
func TestIdleAgentsTakeNoConnection(t *testing.T) {
	t.Parallel()
	dsn := pgtest.New(t)
	gateway, inside := startInstance(t, dsn), newSubscriber(t)
	gateway.subscribe(inside.url, "paid", forAgents)
	conn := connect(t, dsn)
	connections := func() int {
		return count(t, conn, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()`)
	}
	before := connections()
	const agents, claims = 5, 200
	answers := make(chan []claimed, agents*claims)
	for n := range agents {
		agent := gateway.newTestAgent(string(rune('a'+n)), "env:prod", "host:h"+string(rune('a'+n)))
		for range claims {
			go func() {
				var answer struct{ Items []claimed }
				defer func() { answers <- answer.Items }()
				for { // too many requests arrive at once: 429
					if agent.call(gateway, "/claim", map[string]any{"wait_seconds": 12}, &answer) != http.StatusTooManyRequests {
						return
					}
				}
			}()
		}
	}
	clitest.Eventually(t, "the claims wait", func() bool { return gateway.metric("agent_claims_waiting") == agents })
	if after := connections(); after > before+20 {
		t.Errorf("%d connections while %d claims wait, %d before", after, agents*claims, before)
	}
	gateway.mustPublish("paid", 1)
	if status := gateway.call(http.MethodGet, "/agents", nil, nil); status != http.StatusOK {
		t.Errorf("while the claims wait, the list of agents was answered %d", status)
	}
	woken := 0
	for range agents * claims {
		woken += len(<-answers)
	}
	if woken != 1 {
		t.Errorf("the claims got %d deliveries, want 1", woken)
	}
}
