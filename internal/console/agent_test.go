package console_test

import (
	"net/http"
	"net/url"
	"testing"

	"github.com/eventhook/eventhook/client"
)

func TestAgentsAreListedAsText(t *testing.T) {
	f := newFixture(t)
	f.answer("GET "+T+"/agents", client.AgentPage{Items: []client.Agent{{ID: "a1", Name: attack, Labels: []string{attack}, Version: new(attack), Status: "offline", Held: 3}}})
	f.get("/console/t/acme/agents").is(http.StatusOK).lacks("<script>alert").shows("&lt;script&gt;alert", "/console/t/acme/agents/a1", "never", "offline")
	f.answer("GET "+T+"/agents", client.AgentPage{})
	f.get("/console/t/acme/agents").shows("No agents yet", "Register an agent")
}

func TestRegisteredAgentShowsItsKeyOnce(t *testing.T) {
	f := newFixture(t)
	f.get("/console/t/acme/new-agent").is(http.StatusOK)
	f.answer("POST "+T+"/agents", client.AgentCreated{ID: "a1", Name: "berlin", Key: "ehk_once"})
	f.post("/console/t/acme/new-agent", url.Values{"name": {"berlin"}, "labels": {"site:berlin, env:prod"}}).is(http.StatusOK).
		shows("ehk_once", "eventhook agent --server http://localhost --tenant acme")
	if got, want := f.called("POST "+T+"/agents").Body, `{"labels":["site:berlin","env:prod"],"name":"berlin"}`; got != want {
		t.Errorf("body, got %s, want %s", got, want)
	}
	f.answer("POST "+T+"/agents", &client.Problem{Title: "Unprocessable", Status: 422, Errors: []client.Fault{{Location: "body.labels[0]", Message: "is not key:value"}}})
	f.post("/console/t/acme/new-agent", url.Values{"name": {attack}, "labels": {"x"}}).is(422).shows("is not key:value").lacks("<script>alert")
}

func TestAgentIsUpdatedUnlessItHasChanged(t *testing.T) {
	f := newFixture(t)
	f.answer("GET "+T+"/agents/a1", client.Agent{ID: "a1", Name: attack, Labels: []string{"site:berlin"}, Held: 1})
	f.get("/console/t/acme/agents/a1").is(http.StatusOK).lacks("<script>alert").shows("site:berlin", "1 delivery")
	ifMatch := ""
	read := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ifMatch = r.Header.Get("If-Match")
		_, _ = w.Write([]byte(`{"id":"a1"}`))
	})
	f.answer("PATCH "+T+"/agents/a1", read, &client.Problem{Title: "Precondition Failed", Status: 412, Detail: "The agent was changed."})
	f.post("/console/t/acme/agents/a1", url.Values{"name": {"b"}, "labels": {""}, "etag": {`"7"`}}).redirects("/console/t/acme/agents/a1")
	if got, want := f.called("PATCH "+T+"/agents/a1").Body, `{"labels":[],"name":"b"}`; got != want {
		t.Errorf("body, got %s, want %s", got, want)
	}
	if ifMatch != `"7"` {
		t.Errorf("If-Match, got %s, want \"7\"", ifMatch)
	}
	f.post("/console/t/acme/agents/a1", url.Values{"name": {"mine"}}).is(422).shows("The agent was changed.", `value="mine"`)
}

func TestKeyOfAnAgentIsRotated(t *testing.T) {
	f := newFixture(t)
	f.answer("GET "+T+"/agents/a1", client.Agent{ID: "a1", Name: "berlin"})
	f.answer("POST "+T+"/agents/a1/rotate-key", client.KeyRotated{Key: "ehk_new", PreviousExpiresAt: new(today.Add(3600e9))})
	f.post("/console/t/acme/agents/a1/rotate-key", url.Values{"grace_seconds": {"3600"}}).is(http.StatusOK).shows("ehk_new", "in 1 h")
	if got, want := f.called("POST "+T+"/agents/a1/rotate-key").Body, `{"grace_seconds":3600}`; got != want {
		t.Errorf("body, got %s, want %s", got, want)
	}
}

func TestAgentIsDeleted(t *testing.T) {
	f := newFixture(t)
	f.answer("DELETE "+T+"/agents/a1", nil)
	f.post("/console/t/acme/agents/a1/delete", nil).redirects("/console/t/acme/agents")
}

func TestReaderSeesNoActOnAgents(t *testing.T) {
	f := newFixtureOf(t, client.Identity{Type: "tenant", Tenant: &client.IdentityTenant{Slug: "acme"}, Scopes: []string{"read"}})
	f.answer("GET "+T+"/agents/a1", client.Agent{ID: "a1"})
	f.get("/console/t/acme/agents/a1").is(http.StatusOK).lacks("rotate-key", "/delete", "Save")
}
