package api_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/api"
)

func TestIdentity(t *testing.T) {
	const readKey = "the-read-key"
	r := setUp(t, func(d *api.Deps) { d.AdminReadKeys = []eventhook.Secret{eventhook.NewSecret(readKey)} })
	end := noon.Add(time.Hour)
	key, _ := r.keyExpiringAt("acme", &end, eventhook.ScopeRead, eventhook.ScopeWork)
	agent := r.admin("POST", T("acme")+"/agents", `{"name":"dmz","labels":["zone:dmz"]}`).want(http.StatusCreated).object()
	acme := func(status string) any { return map[string]any{"slug": "acme", "name": "Acme", "status": status} }
	identity := func(typ, name string, tenant any, scopes, tenants []any, expires any) map[string]any {
		want := map[string]any{"type": typ, "name": name, "scopes": scopes, "tenants": tenants, "expires_at": expires}
		if tenant != nil {
			want["tenant"] = tenant
		}
		return want
	}
	none := []any{}
	asKey := func(key string) func() *answer {
		return func() *answer { return r.call(key, "GET", "/api/identity", nil) }
	}
	asSession := func(s api.Session) func() *answer {
		return func() *answer { return r.as(s, "GET", "/api/identity", "") }
	}
	admin := person(eventhook.ScopeRead)
	admin.AdminReadOnly = true
	for _, c := range []struct {
		claim string
		send  func() *answer
		want  map[string]any
	}{
		{"the admin key", asKey(adminKey), identity("admin", "admin key", nil, none, none, nil)},
		{"the admin read key", asKey(readKey), identity("admin_read", "admin read key", nil, none, none, nil)},
		{"a tenant's key", asKey(key), identity("tenant", "test", acme("active"), []any{"read", "work"}, none, end.UTC().Format(time.RFC3339))},
		{"an agent's key", asKey(agent["key"].(string)), identity("tenant", "dmz", acme("active"), []any{"deliver"}, none, nil)},
		{"a session with a key", asSession(byKey(key)), identity("tenant", "test", acme("active"), []any{"read", "work"}, none, end.UTC().Format(time.RFC3339))},
		{"a session with a grant", asSession(byGrant(person(eventhook.ScopeRead))), identity("session", "zoe@example.com", nil, none,
			[]any{map[string]any{"slug": "acme", "scopes": []any{"read"}}}, nil)},
		{"a session with an admin's grant", asSession(byGrant(admin)), identity("admin_read", "zoe@example.com", nil, none,
			[]any{map[string]any{"slug": "acme", "scopes": []any{"read"}}}, nil)},
	} {
		if diff := cmp.Diff(c.want, c.send().want(http.StatusOK).object()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.claim, diff)
		}
	}
	r.admin("PATCH", tenants+"/acme", `{"status":"suspended"}`).want(http.StatusOK)
	if got := asKey(key)().want(http.StatusOK).object()["tenant"]; !cmp.Equal(got, acme("suspended")) {
		t.Errorf("a key of a suspended tenant: got %v", got)
	}
	asKey("")().want(http.StatusUnauthorized)
	asKey(api.NewKey())().want(http.StatusUnauthorized)
}
