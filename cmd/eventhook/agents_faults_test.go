package main

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"testing"

	"github.com/eventhook/eventhook/internal/cli/clitest"
	"github.com/eventhook/eventhook/internal/pgtest"
)

// testAgent is an agent that this test plays. The gateway cannot reach the receivers that it can.
type testAgent struct {
	t   *testing.T
	key string
}

// claimed is a delivery as an agent gets it.
type claimed struct {
	ID             string            `json:"id"`
	LeaseToken     int64             `json:"lease_token"`
	LeaseSeconds   int               `json:"lease_seconds"`
	Method         string            `json:"method"`
	URL            string            `json:"url"`
	Headers        map[string]string `json:"headers"`
	BodyBase64     string            `json:"body_base64"`
	TimeoutSeconds int               `json:"timeout_seconds"`
	Attempt        int               `json:"attempt"`
}

// newTestAgent creates an agent with labels.
func (i *instance) newTestAgent(name string, labels ...string) *testAgent {
	i.t.Helper()
	var made struct{ Key string }
	if status := i.call(http.MethodPost, "/agents", map[string]any{"name": name, "labels": labels}, &made); status != http.StatusCreated {
		i.t.Fatalf("creating an agent was answered %d, want 201", status)
	}
	return &testAgent{i.t, made.Key}
}

func (a *testAgent) call(at *instance, path string, body any, answer any) int {
	a.t.Helper()
	raw, err := json.Marshal(body)
	if err != nil {
		a.t.Fatal(err)
	}
	status, text := at.as(a.key, "192.0.2.7", http.MethodPost, "/api/tenants/acme/eventhook/agents"+path, string(raw))
	if answer != nil && status == http.StatusOK {
		if err := json.Unmarshal([]byte(text), answer); err != nil {
			a.t.Fatal(err)
		}
	}
	return status
}

// claim claims deliveries; wait is in seconds.
func (a *testAgent) claim(at *instance, n, wait, lease int) []claimed {
	a.t.Helper()
	var answer struct{ Items []claimed }
	if status := a.call(at, "/claim", map[string]any{"max": n, "wait_seconds": wait, "lease_seconds": lease}, &answer); status != http.StatusOK {
		a.t.Fatalf("the claim was answered %d, want 200", status)
	}
	return answer.Items
}

// send sends a request as it is and returns the status of its answer.
func (a *testAgent) send(c claimed) int {
	a.t.Helper()
	body, err := base64.StdEncoding.DecodeString(c.BodyBase64)
	if err != nil {
		a.t.Fatal(err)
	}
	request, err := http.NewRequestWithContext(a.t.Context(), c.Method, c.URL, bytes.NewReader(body))
	if err != nil {
		a.t.Fatal(err)
	}
	for name, value := range c.Headers {
		request.Header.Set(name, value)
	}
	response, err := testClient.Do(request)
	if err != nil {
		a.t.Fatal(err)
	}
	_ = response.Body.Close()
	return response.StatusCode
}

func (a *testAgent) report(at *instance, c claimed, status int) int {
	a.t.Helper()
	return a.call(at, "/deliveries/"+c.ID+"/result", map[string]any{"lease_token": c.LeaseToken, "status_code": status, "duration_ms": 5}, nil)
}

const forAgents = `"target_labels":["env:prod"],` + quickRetry

// wantDelivery waits until the delivery of an event has a status and a number of attempts.
func (i *instance) wantDelivery(event, status string, attempts int) {
	i.t.Helper()
	var d struct {
		ID, Status string
		Attempts   int `json:"attempt_count"`
	}
	clitest.Eventually(i.t, fmt.Sprintf("the delivery is %s after %d attempts", status, attempts), func() bool {
		var list struct{ Items []json.RawMessage }
		if code := i.call(http.MethodGet, "/deliveries?event_id="+event, nil, &list); code != http.StatusOK || len(list.Items) != 1 {
			i.t.Fatalf("listing the event's deliveries was answered %d with %d items, want one", code, len(list.Items))
		}
		return json.Unmarshal(list.Items[0], &d) == nil && d.Status == status && d.Attempts == attempts
	})
}

// A published event and a webhook reach services that the gateway must not connect to.
func TestAnAgentReachesWhatTheGatewayCannot(t *testing.T) {
	t.Parallel()
	gateway, inside := startInstance(t, pgtest.New(t)), newSubscriber(t)
	agent := gateway.newTestAgent("berlin", "env:prod", "region:eu")
	_, secret := gateway.subscribe(inside.url, "paid", forAgents)
	inside.setSecrets(secret)
	result := make(chan []claimed, 1)
	go func() { result <- agent.claim(gateway, 10, 60, 30) }()
	event := gateway.mustPublish("paid", 1)[0]
	list := <-result
	if len(list) != 1 || list[0].Attempt != 1 || list[0].TimeoutSeconds != 30 || list[0].LeaseSeconds != 30 {
		t.Fatalf("claimed %+v, want the delivery", list)
	}
	if status := agent.send(list[0]); status != http.StatusNoContent {
		t.Errorf("the receiver answered %d: it does not accept the signature", status)
	}
	gateway.wantDelivery(event, "acquired", 0)
	if status := agent.report(gateway, list[0], http.StatusNoContent); status != http.StatusNoContent {
		t.Errorf("the result was answered %d, want 204", status)
	}
	gateway.wantDelivery(event, "success", 1)
	if status := agent.report(gateway, list[0], http.StatusNoContent); status != http.StatusConflict {
		t.Errorf("a second result was answered %d, want 409", status)
	}
}

// A delivery whose agent was killed goes to another agent after its lease. A gateway that was killed
// accepts the result after its restart.
func TestLeasesOutliveAgentsAndGateways(t *testing.T) {
	t.Parallel()
	dsn := pgtest.New(t)
	gateway, inside := startInstance(t, dsn), newSubscriber(t)
	killed, other := gateway.newTestAgent("berlin", "env:prod"), gateway.newTestAgent("paris", "env:prod")
	gateway.subscribe(inside.url, "paid", forAgents)
	event := gateway.mustPublish("paid", 1)[0]
	first := killed.claim(gateway, 1, 60, 1)
	if len(first) != 1 {
		t.Fatalf("claimed %d, want 1", len(first))
	}
	second := other.claim(gateway, 1, 60, 60)
	if len(second) != 1 || second[0].ID != first[0].ID || second[0].LeaseToken != first[0].LeaseToken+1 {
		t.Fatalf("after the lease: claimed %+v, want the delivery with another lease", second)
	}
	if status := killed.report(gateway, first[0], http.StatusOK); status != http.StatusConflict {
		t.Errorf("the late result was answered %d, want 409", status)
	}
	gateway.kill()
	gateway = startInstance(t, dsn)
	if status := other.report(gateway, second[0], http.StatusServiceUnavailable); status != http.StatusNoContent {
		t.Errorf("after a restart the result was answered %d, want 204", status)
	}
	retried := other.claim(gateway, 1, 60, 60)
	if len(retried) != 1 || retried[0].Attempt != 2 {
		t.Fatalf("claimed %+v, want the second attempt", retried)
	}
	other.report(gateway, retried[0], http.StatusOK)
	gateway.wantDelivery(event, "success", 2)
}

// A delivery waits for an agent with its labels, and is sent when one appears.
func TestDeliveriesWaitForAnAgentWithTheirLabels(t *testing.T) {
	t.Parallel()
	gateway, inside := startInstance(t, pgtest.New(t)), newSubscriber(t)
	gateway.subscribe(inside.url, "paid", forAgents)
	event := gateway.mustPublish("paid", 1)[0]
	stranger := gateway.newTestAgent("berlin", "env:test")
	if list := stranger.claim(gateway, 10, 0, 30); len(list) != 0 {
		t.Errorf("an agent without the label claimed %+v", list)
	}
	gateway.wantDelivery(event, "pending", 0)
	agent := gateway.newTestAgent("paris", "env:prod")
	list := agent.claim(gateway, 10, 60, 30)
	if len(list) != 1 {
		t.Fatalf("claimed %d, want 1", len(list))
	}
	agent.report(gateway, list[0], agent.send(list[0]))
	gateway.wantDelivery(event, "success", 1)
}
