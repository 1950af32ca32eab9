package api_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eventhook/eventhook/internal/api"
)

func TestTenants(t *testing.T) {
	r := setUp(t)
	made := r.admin("POST", "/api/admin/tenants", map[string]any{"slug": "fresh", "name": "Fresh"}).want(http.StatusCreated).object()
	want := map[string]any{"id": made["id"], "slug": "fresh", "name": "Fresh", "status": "active", "created_at": "2026-03-10T15:00:00Z"}
	if diff := cmp.Diff(want, made); diff != "" {
		t.Errorf("made (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(made, r.admin("GET", "/api/admin/tenants/fresh", nil).want(http.StatusOK).object()); diff != "" {
		t.Errorf("read (-made +got):\n%s", diff)
	}
	r.admin("GET", "/api/admin/tenants/nobody", nil).want(http.StatusNotFound)
}

func TestKeyIsShownOnce(t *testing.T) {
	r := setUp(t)
	const keys = "/api/admin/tenants/acme/keys"
	made := r.admin("POST", keys, map[string]any{"name": "ci", "scopes": []string{"read", "work"}, "expires_at": "2026-03-11T00:00:00+02:00"}).
		want(http.StatusCreated).object()
	key, _ := made["key"].(string)
	if !strings.HasPrefix(key, api.KeyPrefix) || len(key) < 40 || !strings.HasPrefix(key, made["prefix"].(string)) || len(made["prefix"].(string)) > 12 {
		t.Errorf("got the key %q with the prefix %q", key, made["prefix"])
	}
	if made["expires_at"] != "2026-03-10T22:00:00Z" {
		t.Errorf("expires at %v, want it in UTC", made["expires_at"])
	}
	r.call(key, "GET", T("acme")+"/events", nil).want(http.StatusOK)
	listed := r.admin("GET", keys, nil).want(http.StatusOK)
	if strings.Contains(listed.Body.String(), key) {
		t.Error("a list shows the key")
	}
	delete(made, "key")
	var p page
	if listed.into(&p); len(p.Items) != 1 || !cmp.Equal(p.Items[0], made) {
		t.Errorf("listed %v, want %v", p.Items, made)
	}
	r.clock.advance(12 * time.Hour)
	r.call(key, "GET", T("acme")+"/events", nil).want(http.StatusUnauthorized)
	id := made["id"].(string)
	r.admin("DELETE", keys+"/"+id, nil).want(http.StatusNoContent)
	r.admin("DELETE", keys+"/"+id, nil).want(http.StatusNotFound)
	r.admin("DELETE", keys+"/17", nil).want(http.StatusBadRequest)
}

func TestKeysAreRandom(t *testing.T) {
	seen := map[string]bool{}
	for range 1000 {
		key := api.NewKey()
		if seen[key] || !strings.HasPrefix(key, api.KeyPrefix) {
			t.Fatalf("made %q, want one of its own that starts with %s", key, api.KeyPrefix)
		}
		seen[key] = true
	}
}
