package api_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/pg"
)

// learning creates a source that receives its secret by a handshake.
func (r *fixture) learning(slug, provider string) eventhook.SourceID {
	r.Helper()
	_, err := r.db.ApplyTenant(r.Context(), operator, eventhook.TenantConfig{Tenant: eventhook.Tenant{Slug: "acme", Name: "Acme"},
		Sources: []eventhook.SourceConfig{{Source: eventhook.Source{Slug: slug, Name: slug, Provider: provider, IsEnabled: true,
			Verifier: eventhook.NewSecret(`{"provider":"` + provider + `"}`)}}}}, pg.ApplyOptions{})
	r.must(err)
	s, err := r.db.FindSource(r.Context(), "acme", slug)
	r.must(err)
	return s.ID
}

func TestLearnedSecretIsRevealedOnce(t *testing.T) {
	const secret = "secret_tMrlL1qK5vuQAh1b6cZGhFCh"
	r := setUp(t)
	key, _ := r.key("acme", eventhook.ScopeRead)
	manager, _ := r.key("acme", eventhook.ScopeManage)
	id := r.learning("notion", "notion")
	at := strings.ReplaceAll(tenantBase, "{tenant}", "acme") + "/sources/notion/handshake"
	status := func(want string) string {
		t.Helper()
		a := r.call(key, http.MethodGet, at, "")
		body := a.Body.String()
		if a.Code != http.StatusOK || !strings.Contains(body, `"status":"`+want+`"`) || strings.Contains(body, secret) {
			t.Errorf("answered %d %s, want the status %s and no secret", a.Code, body, want)
		}
		return body
	}
	code := func(act string, want int) string {
		t.Helper()
		a := r.call(manager, http.MethodPost, at+"/"+act, "")
		if a.Code != want {
			t.Errorf("%s: answered %d %s, want %d", act, a.Code, a.Body, want)
		}
		return a.Body.String()
	}
	status("waiting")
	code("reveal", http.StatusConflict)
	r.must(r.db.StoreLearnedSecret(t.Context(), id, eventhook.NewSecret(secret)))
	if body := status("learned"); !strings.Contains(body, `"revealed_at":null`) {
		t.Errorf("learned: %s, want revealed_at null", body)
	}
	if body := code("reveal", http.StatusOK); !strings.Contains(body, `"secret":"`+secret+`"`) {
		t.Errorf("revealed %s, want the secret", body)
	}
	if body := code("reveal", http.StatusConflict); strings.Contains(body, secret) {
		t.Errorf("the second reveal returned the secret: %s", body)
	}
	if body := status("learned"); strings.Contains(body, `"revealed_at":null`) {
		t.Errorf("revealed: %s, want revealed_at set", body)
	}
	code("reset", http.StatusNoContent)
	code("reset", http.StatusNoContent)
	if body := status("waiting"); !strings.Contains(body, `"waits_until":null`) {
		t.Errorf("waiting: %s, want waits_until null, because Notion's secret is used after it was revealed", body)
	}
}

func TestHandshakeWithoutConfirmationCloses(t *testing.T) {
	r := setUp(t)
	manager, _ := r.key("acme", eventhook.ScopeManage, eventhook.ScopeRead)
	r.learning("asana", "asana")
	at := strings.ReplaceAll(tenantBase, "{tenant}", "acme") + "/sources/asana/handshake"
	want := func(claim, status string) {
		t.Helper()
		if body := r.call(manager, http.MethodGet, at, "").Body.String(); !strings.Contains(body, `"status":"`+status+`"`) || strings.Contains(body, `"waits_until":null`) {
			t.Errorf("%s: got %s, want the status %s and waits_until", claim, body, status)
		}
	}
	want("at the start", "waiting")
	r.clock.Advance(time.Hour + time.Second)
	want("after an hour", "closed")
	r.call(manager, http.MethodPost, at+"/reset", "")
	want("reset", "waiting")
}

func TestHandshakesWithoutASecret(t *testing.T) {
	r := setUp(t)
	key, _ := r.key("acme", eventhook.ScopeRead)
	r.learning("slack", "slack")
	for slug, want := range map[string]string{"crm": `"handshake":null,"status":"none"`, "slack": `"handshake":"slack","status":"stateless"`} {
		a := r.call(key, http.MethodGet, strings.ReplaceAll(tenantBase, "{tenant}", "acme")+"/sources/"+slug+"/handshake", "")
		if a.Code != http.StatusOK || !strings.Contains(a.Body.String(), want) {
			t.Errorf("%s: answered %d %s, want %s", slug, a.Code, a.Body, want)
		}
	}
	for _, act := range []string{"reveal", "reset"} {
		a := r.call(adminKey, http.MethodPost, strings.ReplaceAll(tenantBase, "{tenant}", "acme")+"/sources/slack/handshake/"+act, "")
		if a.Code != http.StatusConflict {
			t.Errorf("%s of a source without a learned secret: answered %d %s, want 409", act, a.Code, a.Body)
		}
	}
	for _, act := range []string{"", "/reveal", "/reset"} {
		method := http.MethodPost
		if act == "" {
			method = http.MethodGet
		}
		a := r.call(adminKey, method, strings.ReplaceAll(tenantBase, "{tenant}", "acme")+"/sources/nowhere/handshake"+act, "")
		if a.Code != http.StatusNotFound {
			t.Errorf("an unknown source, %s: answered %d, want 404", act, a.Code)
		}
	}
}
