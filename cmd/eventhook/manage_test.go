package main

import (
	"bytes"
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/eventhook/eventhook/ingest"
	"github.com/eventhook/eventhook/internal/cli/clitest"
	"github.com/eventhook/eventhook/internal/cli/send"
	"github.com/eventhook/eventhook/internal/pgtest"
)

// send sends a webhook to a source of acme.
func (i *instance) send(source string) (status int, event string) {
	i.t.Helper()
	resp, err := testClient.Post(i.url+ingest.Path("acme", source), "application/json", bytes.NewReader([]byte(`{"type":"made"}`)))
	if err != nil {
		i.t.Fatal(err)
	}
	defer resp.Body.Close()
	var answer send.Answer
	if resp.StatusCode == http.StatusOK {
		if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
			i.t.Fatal(err)
		}
	}
	return resp.StatusCode, answer.EventID
}

// A change reaches all instances long before their cache entries expire.
func TestChangeReachesAllInstances(t *testing.T) {
	dsn := pgtest.New(t)
	managing, receiving := startInstance(t, dsn), startInstance(t, dsn)
	soon := func(claim string, holds func() bool) {
		t.Helper()
		began := time.Now()
		clitest.Eventually(t, claim, holds)
		if took := time.Since(began); took > 30*time.Second { // a source is cached for a minute
			t.Errorf("%s: after %s, want less than 30s", claim, took)
		}
	}
	change := func(method, path string, body, answer any, want int) {
		t.Helper()
		if got := managing.call(method, path, body, answer); got != want {
			t.Fatalf("%s %s: answered %d, want %d", method, path, got, want)
		}
	}
	answers := func(want int) func() bool {
		return func() bool {
			got, _ := receiving.send("fresh")
			return got == want
		}
	}
	becomes := func(want string) func() bool {
		return func() bool {
			_, id := receiving.send("fresh")
			var event struct{ Status string }
			clitest.Eventually(t, "the event is processed", func() bool {
				return receiving.call("GET", "/events/"+id, nil, &event) == http.StatusOK && event.Status != "pending" && event.Status != "processing"
			})
			return event.Status == want
		}
	}
	soon("an unknown source answers 404", answers(http.StatusNotFound))
	change("POST", "/sources", map[string]any{"slug": "fresh", "verifier": map[string]any{"type": "none"}}, nil, http.StatusCreated)
	soon("a new source accepts webhooks", answers(http.StatusOK))
	soon("an event without a route is unrouted", becomes("unrouted"))
	var route struct{ ID string }
	change("POST", "/sources/fresh/routes", map[string]any{"name": "all", "targets": []any{map[string]any{"type": "task", "task_kind": "build"}}}, &route, http.StatusCreated)
	soon("a new route applies", becomes("delivered"))
	change("PATCH", "/sources/fresh/routes/"+route.ID, map[string]any{"filter_expression": `event.type == "other"`}, nil, http.StatusOK)
	soon("a changed route applies", becomes("unrouted"))
	change("PATCH", "/sources/fresh", map[string]any{"is_enabled": false}, nil, http.StatusOK)
	soon("a disabled source answers 404", answers(http.StatusNotFound))
	change("PATCH", "/sources/fresh", map[string]any{"is_enabled": true}, nil, http.StatusOK)
	soon("an enabled source accepts webhooks", answers(http.StatusOK))
	change("DELETE", "/sources/fresh?cascade=true", nil, nil, http.StatusNoContent)
	soon("a deleted source answers 404", answers(http.StatusNotFound))
}
