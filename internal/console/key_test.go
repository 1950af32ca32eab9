package console_test

import (
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/eventhook/eventhook/client"
)

// adminOf is the identity of the admin key.
var adminOf = client.Identity{Type: "admin", Name: "admin key"}

func TestTenantSeesItsKeysAndCannotChangeThem(t *testing.T) {
	f := newFixture(t)
	f.answer("GET "+T+"/keys", client.KeyPage{Items: []client.Key{{ID: "k1", Name: attack, Prefix: "ehk_ab", Scopes: []string{"read"}, ExpiresAt: new(today.Add(time.Hour))},
		{ID: "k2", ExpiresAt: new(today.Add(-time.Hour)), AgentID: new("a1")}}})
	f.get("/console/t/acme/keys").is(http.StatusOK).lacks("<script>alert", "/delete", "Create a key").shows("expiring", "expired", "ehk_ab", "/agents/a1", "never")
}

func TestAdminCreatesAndDeletesKeys(t *testing.T) {
	const keys = "/api/admin/tenants/acme/keys"
	f := newFixtureOf(t, adminOf)
	f.answer("GET "+keys, client.KeyPage{Items: []client.Key{{ID: "k1", Name: attack}}})
	f.get("/console/t/acme/keys").is(http.StatusOK).lacks("<script>alert").shows("/keys/k1/delete", "Create a key")
	f.get("/console/t/acme/keys/new").is(http.StatusOK).shows(`value="read" checked`)
	f.answer("POST "+keys, client.Key{ID: "k1", Name: "ci", Key: new("ehk_once"), Scopes: []string{"publish"}})
	f.post("/console/t/acme/keys/new", url.Values{"name": {"ci"}, "scopes": {"publish", "work"}, "expires_at": {"2026-03-01T00:00"}}).is(http.StatusOK).shows("ehk_once")
	if got, want := f.called("POST "+keys).Body, `{"expires_at":"2026-03-01T00:00:00Z","name":"ci","scopes":["publish","work"]}`; got != want {
		t.Errorf("body, got %s, want %s", got, want)
	}
	f.answer("DELETE "+keys+"/k1", nil)
	f.post("/console/t/acme/keys/k1/delete", nil).redirects("/console/t/acme/keys")
}

func TestRefusedKeyKeepsTheForm(t *testing.T) {
	f := newFixtureOf(t, adminOf)
	f.answer("POST /api/admin/tenants/acme/keys", &client.Problem{Title: "Unprocessable", Status: 422, Errors: []client.Fault{{Location: "body.scopes", Message: "choose a scope"}}})
	f.post("/console/t/acme/keys/new", url.Values{"name": {attack}}).is(422).shows("choose a scope", "&lt;script&gt;").lacks("<script>alert")
	if got, want := f.called("POST /api/admin/tenants/acme/keys").Body, `{"name":"\"\u003e\u003cscript\u003ealert(1)\u003c/script\u003e","scopes":[]}`; got != want {
		t.Errorf("body, got %s, want %s", got, want)
	}
}
