package api_test

import (
	"net/http"
	"testing"
)

// A lost encryption key affects only the sources whose secrets it encrypted. They
// are listed, and can get new secrets, be disabled or be deleted.
func TestSourcesWithLostSecretsCanBeRepaired(t *testing.T) {
	r := setUp(t)
	sources := T("acme") + "/sources"
	for _, slug := range []string{"hub", "shut"} {
		r.admin("POST", sources, object{"slug": slug, "provider": "github", "secrets": []string{lostKeyMarker}}).want(http.StatusCreated)
	}
	got := map[string]any{}
	for _, item := range r.admin("GET", sources, nil).want(http.StatusOK).object()["items"].([]any) {
		source := item.(object)
		got[source["slug"].(string)] = source["secrets_lost"]
	}
	if got["hub"] != true || got["crm"] != nil || len(got) != 4 {
		t.Errorf("lost secrets: %v, want hub and shut of four sources", got)
	}
	if one := r.admin("GET", sources+"/hub", nil).want(http.StatusOK).object(); one["provider"] != "github" || one["secrets_lost"] != true {
		t.Errorf("got %v, want the provider and secrets_lost", one)
	}
	r.admin("PATCH", sources+"/hub", object{"name": "Hub"}).want(http.StatusUnprocessableEntity) // it still has no secret
	repaired := r.admin("PATCH", sources+"/hub", object{"secrets": []string{"new"}}).want(http.StatusOK).object()
	if repaired["secrets_lost"] != nil || repaired["secrets_count"] != 1.0 {
		t.Errorf("got %v, want one secret, which is not lost", repaired)
	}
	r.admin("DELETE", sources+"/shut", nil).want(http.StatusNoContent)
}
