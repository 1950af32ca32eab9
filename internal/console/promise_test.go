package console_test

import (
	"net/http"
	"net/url"
	"testing"

	"github.com/eventhook/eventhook/client"
)

func TestPromisesAreListedByFilters(t *testing.T) {
	f := newFixture(t)
	f.answer("GET "+T+"/promises", client.PromisePage{Items: []client.Promise{{ID: "p1", IdempotencyKey: attack, Status: "rejected", Error: new(attack),
		WorkflowExecutionID: new("e1"), CreatedAt: today}}})
	f.get("/console/t/acme/promises?status=rejected&idempotency_key=a").is(http.StatusOK).lacks("<script>alert").shows("/console/t/acme/work/e1", "&lt;script&gt;alert")
	if got, want := f.called("GET "+T+"/promises").Query, "idempotency_key=a&limit=50&status=rejected"; got != want {
		t.Errorf("query, got %q, want %q", got, want)
	}
}

func TestPendingPromiseCanBeSettled(t *testing.T) {
	f := newFixture(t)
	f.answer("GET "+T+"/promises/p1", client.Promise{ID: "p1", IdempotencyKey: "approval", Status: "pending", CreatedAt: today})
	f.get("/console/t/acme/promises/p1").is(http.StatusOK).shows("/p1/resolve", "/p1/reject", "never")
	f.answer("POST "+T+"/promises/p1/resolve", client.Promise{ID: "p1"})
	f.post("/console/t/acme/promises/p1/resolve", url.Values{"value": {`{"ok":true}`}}).redirects("/console/t/acme/promises/p1")
	if got, want := f.called("POST "+T+"/promises/p1/resolve").Body, `{"value":{"ok":true}}`; got != want {
		t.Errorf("body, got %s, want %s", got, want)
	}
	f.answer("POST "+T+"/promises/p1/reject", client.Promise{ID: "p1"})
	f.post("/console/t/acme/promises/p1/reject", url.Values{"error": {"no"}}).redirects("/console/t/acme/promises/p1")
	if got, want := f.called("POST "+T+"/promises/p1/reject").Body, `{"error":"no"}`; got != want {
		t.Errorf("body, got %s, want %s", got, want)
	}
}

func TestRefusedSettlementKeepsTheForm(t *testing.T) {
	f := newFixture(t)
	f.answer("GET "+T+"/promises/p1", client.Promise{ID: "p1", Status: "pending", CreatedAt: today})
	f.post("/console/t/acme/promises/p1/resolve", url.Values{"value": {attack}}).is(422).shows("is not valid JSON", "&lt;script&gt;").lacks("<script>alert")
	f.answer("POST "+T+"/promises/p1/reject", &client.Problem{Title: "Unprocessable", Status: 422, Errors: []client.Fault{{Location: "body.error", Message: "is too long"}}})
	f.post("/console/t/acme/promises/p1/reject", url.Values{"error": {attack}}).is(422).shows("is too long").lacks("<script>alert")
}

func TestSettledPromiseShowsItsValueAsText(t *testing.T) {
	f := newFixture(t)
	f.answer("GET "+T+"/promises/p1", client.Promise{ID: "p1", IdempotencyKey: attack, Status: "resolved", Value: asJSON(map[string]any{"a": attack}), Error: new(attack), CreatedAt: today, SettledAt: &today})
	f.get("/console/t/acme/promises/p1").is(http.StatusOK).shows(`<div class="tree">`).lacks("<script>alert", "/p1/resolve")
}

func TestPromiseIsCreated(t *testing.T) {
	f := newFixture(t)
	f.get("/console/t/acme/promises/new").is(http.StatusOK)
	f.post("/console/t/acme/promises/new", url.Values{"timeout_seconds": {"soon"}}).is(422).shows("is not a whole number")
	f.answer("POST "+T+"/promises", client.Promise{ID: "p1", IdempotencyKey: "k"})
	f.post("/console/t/acme/promises/new", url.Values{"idempotency_key": {"k"}, "timeout_seconds": {"60"}}).redirects("/console/t/acme/promises/p1")
	if got, want := f.called("POST "+T+"/promises").Body, `{"idempotency_key":"k","timeout_seconds":60}`; got != want {
		t.Errorf("body, got %s, want %s", got, want)
	}
}
