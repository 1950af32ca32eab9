package console_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/eventhook/eventhook/client"
)

func TestWorkShowsQueuesAndExecutionsAsText(t *testing.T) {
	f := newFixture(t)
	f.answer("GET "+T+"/work/queues", client.WorkQueuesAnswer{AsOf: today, Items: []client.WorkQueue{{Queue: "mail", Due: 1284, OldestDueAgeSeconds: 90}}})
	f.answer("GET "+T+"/work", client.ExecutionPage{Items: []client.Execution{{ID: "e1", Kind: attack, Queue: attack, Error: new(attack), Status: "dead", CreatedAt: today}}})
	f.get("/console/t/acme/work?status=dead&type=task&kind=k&queue=mail").is(http.StatusOK).lacks("<script>alert").
		shows("1\u202f284", "90 s", "&lt;script&gt;alert", `<span class="status failed">`, "/console/t/acme/work/e1")
	if got, want := f.called("GET "+T+"/work").Query, "kind=k&limit=50&queue=mail&status=dead&type=task"; got != want {
		t.Errorf("query, got %q, want %q", got, want)
	}
}

func TestWorkOfAKeyWithoutTheScopeShowsQueuesOnly(t *testing.T) {
	f := newFixtureOf(t, client.Identity{Type: "tenant", Tenant: &client.IdentityTenant{Slug: "acme"}, Scopes: []string{"read"}})
	f.answer("GET "+T+"/work/queues", client.WorkQueuesAnswer{Items: []client.WorkQueue{{Queue: "mail"}}})
	f.answer("GET "+T+"/work", &client.Problem{Title: "Forbidden", Status: http.StatusForbidden})
	f.get("/console/t/acme/work").is(http.StatusOK).shows("mail", "scope <code>work</code>").lacks("Start work", "No work yet")
}

func TestWorkWithoutQueuesStillShowsExecutions(t *testing.T) {
	f := newFixture(t)
	f.answer("GET "+T+"/work/queues", &client.Problem{Title: "Service Unavailable", Status: http.StatusServiceUnavailable, Detail: "The database is slow."})
	f.answer("GET "+T+"/work", client.ExecutionPage{})
	f.get("/console/t/acme/work").is(http.StatusOK).shows("The database is slow.", "No work yet")
}

func TestExecutionTellsItsStory(t *testing.T) {
	f := newFixture(t)
	f.answer("GET "+T+"/work/e1", client.Execution{ID: "e1", Kind: "invoice", Queue: "mail", Status: "dead", Type: "workflow", Attempt: 3, MaxAttempts: 3, EventID: new("ev1"),
		Error: new(attack), Input: new(asJSON(map[string]any{"to": attack})), CreatedAt: today, CompletedAt: new(today.Add(2_000_000_000)),
		Promises: []client.Promise{{ID: "p1", IdempotencyKey: "approval", Status: "rejected"}}})
	f.get("/console/t/acme/work/e1").is(http.StatusOK).lacks("<script>alert", "/e1/cancel").
		shows("3 attempts of 3", "/console/t/acme/events/ev1", "/console/t/acme/promises/p1", "2 s after it was created", "/e1/retry", `<div class="tree">`, "continues with its state")
}

func TestExecutionIsCancelledAndRetried(t *testing.T) {
	f := newFixture(t)
	for _, act := range []string{"cancel", "retry"} {
		f.answer("POST "+T+"/work/e1/"+act, client.Execution{ID: "e1"})
		f.post("/console/t/acme/work/e1/"+act, nil).redirects("/console/t/acme/work/e1")
		f.called("POST " + T + "/work/e1/" + act)
	}
	f.answer("POST "+T+"/work/e1/cancel", &client.Problem{Title: "Conflict", Status: http.StatusConflict, Detail: "The execution has ended."})
	f.post("/console/t/acme/work/e1/cancel", nil).is(http.StatusConflict).shows("The execution has ended.")
}

func TestStartWorkSendsWhatTheFormSays(t *testing.T) {
	f := newFixture(t)
	f.get("/console/t/acme/work/new?kind=invoice").is(http.StatusOK).shows(`value="invoice"`)
	f.answer("POST "+T+"/work", client.Execution{ID: "e1", Type: "task"})
	f.post("/console/t/acme/work/new", url.Values{"type": {"task"}, "kind": {"invoice"}, "queue": {""}, "input": {`{"n": 12345678901234567890}`},
		"priority": {"-3"}, "run_at": {"2026-02-01T10:00"}, "idempotency_key": {"k1"}}).redirects("/console/t/acme/work/e1")
	const want = `{"idempotency_key":"k1","input":{"n":12345678901234567890},"kind":"invoice","priority":-3,"run_at":"2026-02-01T10:00:00Z","type":"task"}`
	if got := strings.TrimSpace(f.called("POST " + T + "/work").Body); got != want {
		t.Errorf("body, got %s, want %s", got, want)
	}
}

func TestRefusedStartOfWorkKeepsTheForm(t *testing.T) {
	f := newFixture(t)
	f.post("/console/t/acme/work/new", url.Values{"input": {attack}, "priority": {"high"}, "run_at": {"soon"}}).is(http.StatusUnprocessableEntity).
		shows("is not valid JSON", "is not a whole number", "is not a time", "&lt;script&gt;").lacks("<script>alert")
	f.answer("POST "+T+"/work", &client.Problem{Title: "Unprocessable", Status: 422, Errors: []client.Fault{{Location: "body.kind", Message: "is required"}}})
	f.post("/console/t/acme/work/new", url.Values{"input": {"1"}, "queue": {"mail"}}).is(422).shows("is required", `value="mail"`)
}
