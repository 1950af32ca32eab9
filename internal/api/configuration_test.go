package api_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/api"
)

// configuration is an api.Configuration in memory. It reads only slugs and quotas.
type configuration struct {
	acts         []string // such as "plan acme" and "apply acme by api_key"
	fails        map[string]error
	changes      []eventhook.Change
	waits        bool               // ApplyConfiguration waits for the end of its context
	reader       eventhook.TenantID // of the last ReadConfiguration
	isSlowToRead bool               // ReadConfiguration waits for the end of its context
}

func (c *configuration) ReadConfiguration(ctx context.Context, tenant eventhook.TenantID, raw []byte) (tenants []eventhook.TenantConfig, faults eventhook.Faults, err error) {
	c.reader = tenant
	if c.isSlowToRead {
		<-ctx.Done()
		return nil, nil, ctx.Err()
	}
	var all struct {
		Tenants []struct {
			Slug  string
			Quota *int64 `json:"max_events_per_day"`
		}
	}
	if err := json.Unmarshal(raw, &all); err != nil || all.Tenants == nil {
		faults.Add("tenants", "is required")
	}
	for i, t := range all.Tenants {
		if t.Slug == "" {
			faults.Add(fmt.Sprintf("tenants[%d].slug", i), "is required")
		}
		tenants = append(tenants, eventhook.TenantConfig{Tenant: eventhook.Tenant{Slug: t.Slug, Quota: eventhook.Quota{MaxEventsPerDay: t.Quota}}})
	}
	return tenants, faults, nil
}

func (c *configuration) ApplyConfiguration(ctx context.Context, by eventhook.Actor, t eventhook.TenantConfig, o api.ApplyOptions) ([]eventhook.Change, error) {
	act := "apply " + t.Slug + " by " + string(by.Type)
	if o.DryRun {
		act = "plan " + t.Slug
	}
	if o.Prune {
		act += " with prune"
	}
	c.acts = append(c.acts, act)
	if c.waits {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return c.changes, c.fails[act]
}

func (c *configuration) ExportConfiguration(_ context.Context, o api.ExportOptions) (json.RawMessage, error) {
	c.acts = append(c.acts, fmt.Sprint("export ", o.Slugs, " without quotas: ", o.WithoutQuotas))
	return json.RawMessage(`{"tenants":[{"slug":"acme","b":1.50,"a":"${X}"}],"variables":["X"]}`), nil
}

func TestApplyPlansAllTenantsBeforeItChangesOne(t *testing.T) {
	const two = `{"tenants":[{"slug":"acme"},{"slug":"umbrella"}]}`
	conflict := &eventhook.Error{Kind: eventhook.KindConflict, Message: "The tenant is closed."}
	for _, c := range []struct {
		claim, query, body string
		fails              string
		code               int
		acts               []string
		detail             string
	}{
		{"one tenant", "", `{"tenants":[{"slug":"acme"}]}`, "", 200, []string{"apply acme by admin_on_behalf_of"}, ""},
		{"two tenants", "?prune=true", two, "", 200, []string{"plan acme with prune", "plan umbrella with prune", "apply acme by admin_on_behalf_of with prune", "apply umbrella by admin_on_behalf_of with prune"}, ""},
		{"a dry run", "?dry_run=true", two, "", 200, []string{"plan acme", "plan umbrella"}, ""},
		{"no tenants", "", `{"tenants":[]}`, "", 200, nil, ""},
		{"a conflict of the second", "", two, "plan umbrella", 409, []string{"plan acme", "plan umbrella"}, "Tenant umbrella: The tenant is closed."},
		{"a conflict that comes later", "", two, "apply umbrella by admin_on_behalf_of", 409, []string{"plan acme", "plan umbrella", "apply acme by admin_on_behalf_of", "apply umbrella by admin_on_behalf_of"},
			"Tenant umbrella: The tenant is closed. The tenants before it in the request were applied and stay applied; no other tenant was changed."},
		{"faults", "", `{"tenants":[{"slug":"acme"},{}]}`, "", 422, nil, ""},
		{"an unknown parameter", "?dry=true", two, "", 422, nil, ""},
		{"a body that is not JSON", "", `{"tenants":`, "", 400, nil, ""},
	} {
		t.Run(c.claim, func(t *testing.T) {
			r := setUp(t)
			r.configuration.fails = map[string]error{c.fails: conflict}
			got := r.call(adminKey, http.MethodPost, "/api/admin/apply"+c.query, c.body)
			if got.Code != c.code || !slices.Equal(r.configuration.acts, c.acts) {
				t.Errorf("answered %d %s after %q, want %d after %q", got.Code, got.Body, r.configuration.acts, c.code, c.acts)
			}
			if c.detail != "" && !strings.Contains(got.Body.String(), c.detail) {
				t.Errorf("answered %s, want %q", got.Body, c.detail)
			}
		})
	}
}

func TestTheAnswerOfApplyIsThePlan(t *testing.T) {
	r := setUp(t)
	r.configuration.changes = []eventhook.Change{
		{Action: eventhook.ChangeCreate, Kind: "tenant", Name: "acme"},
		{Action: eventhook.ChangeUnchanged, Kind: "source", Name: "acme/a"},
		{Action: eventhook.ChangeUpdate, Kind: "source", Name: "acme/b", Fields: []eventhook.FieldChange{{Field: "name", From: json.RawMessage(`"x"`), To: json.RawMessage(`"y"`)}}},
		{Action: eventhook.ChangeDelete, Kind: "route", Name: "acme/b/r"},
	}
	for query, applied := range map[string]bool{"": true, "?dry_run=true": false} {
		got := r.call(adminKey, http.MethodPost, "/api/admin/apply"+query, `{"tenants":[{"slug":"acme"}]}`)
		var answer any
		r.must(json.Unmarshal(got.Body.Bytes(), &answer))
		want := object{"applied": applied, "unchanged": 1.0, "changes": []any{
			object{"action": "create", "resource": "tenant", "name": "acme", "diff": []any{}},
			object{"action": "update", "resource": "source", "name": "acme/b", "diff": []any{object{"field": "name", "from": "x", "to": "y"}}},
			object{"action": "delete", "resource": "route", "name": "acme/b/r", "diff": []any{}},
		}}
		if diff := cmp.Diff(any(want), answer); diff != "" {
			t.Errorf("%q (-want +got):\n%s", query, diff)
		}
	}
}

func TestATenantsKeyAppliesItsOwnTenantWithoutQuotas(t *testing.T) {
	r := setUp(t)
	key, _ := r.key("acme", eventhook.ScopeManage)
	for _, c := range []struct {
		claim, key, body string
		code             int
		says             string
	}{
		{"its own", key, `{"tenants":[{"slug":"acme"}]}`, 200, `"applied":true`},
		{"another tenant", key, `{"tenants":[{"slug":"umbrella"}]}`, 422, "must have one element, the tenant acme"},
		{"its own and another", key, `{"tenants":[{"slug":"acme"},{"slug":"umbrella"}]}`, 422, "must have one element, the tenant acme"},
		{"no tenant", key, `{"tenants":[]}`, 422, "must have one element, the tenant acme"},
		{"a quota", key, `{"tenants":[{"slug":"acme","max_events_per_day":5}]}`, 422, "with the admin key only"},
		{"a quota with the admin key", adminKey, `{"tenants":[{"slug":"acme","max_events_per_day":5}]}`, 200, `"applied":true`},
	} {
		r.configuration.acts = nil
		got := r.call(c.key, http.MethodPost, T("acme")+"/apply", c.body)
		if got.Code != c.code || !strings.Contains(got.Body.String(), c.says) || (len(r.configuration.acts) > 0) != (c.code == 200) {
			t.Errorf("%s: answered %d %s after %q, want %d and %q", c.claim, got.Code, got.Body, r.configuration.acts, c.code, c.says)
		}
	}
	if got, want := r.configuration.acts, []string{"apply acme by admin_on_behalf_of"}; !slices.Equal(got, want) {
		t.Errorf("the admin: got %q, want %q", got, want)
	}
	r.configuration.acts = nil
	r.call(key, http.MethodGet, T("acme")+"/export", "")
	r.call(adminKey, http.MethodGet, T("acme")+"/export", "")
	r.call(adminKey, http.MethodGet, "/api/admin/export?tenant=acme", "")
	got := r.call(adminKey, http.MethodGet, "/api/admin/export", "")
	want := []string{"export [acme] without quotas: true", "export [acme] without quotas: false", "export [acme] without quotas: false", "export [] without quotas: false"}
	if diff := cmp.Diff(want, r.configuration.acts); diff != "" {
		t.Errorf("exports (-want +got):\n%s", diff)
	}
	if body := strings.TrimSpace(got.Body.String()); body != `{"tenants":[{"slug":"acme","b":1.50,"a":"${X}"}],"variables":["X"]}` {
		t.Errorf("the export is %s", body)
	}
}

func TestAnAppliedBodyIsBounded(t *testing.T) {
	r := setUp(t)
	large := `{"tenants":[{"slug":"` + strings.Repeat("a", 2<<20) + `"}]}`
	if got := r.call(adminKey, http.MethodPost, "/api/admin/apply", large); got.Code != http.StatusRequestEntityTooLarge {
		t.Errorf("a large body is answered %d, want 413", got.Code)
	}
	many := `{"tenants":[` + strings.Repeat(`{},`, 20_000) + `{}]}`
	if got := r.call(adminKey, http.MethodPost, "/api/admin/apply", many); got.Code != http.StatusUnprocessableEntity || !strings.Contains(got.Body.String(), "30000 values") {
		t.Errorf("many values are answered %d %s, want 422", got.Code, got.Body)
	}
	if len(r.configuration.acts) > 0 {
		t.Errorf("acts %q", r.configuration.acts)
	}
}

// The gateway compiles the expressions of a tenant's file in the tenant's share of processor time.
func TestABodyIsReadInTheTenantsShare(t *testing.T) {
	r := setUp(t)
	body := `{"tenants":[{"slug":"acme"}]}`
	for path, isOfTenant := range map[string]bool{"/api/admin/apply": false, T("acme") + "/apply": true} {
		got := r.call(adminKey, http.MethodPost, path, body)
		if got.Code != 200 || r.configuration.reader.IsZero() == isOfTenant {
			t.Errorf("%s: answered %d, read for %s", path, got.Code, r.configuration.reader)
		}
	}
}

func TestApplyEndsInTime(t *testing.T) {
	for claim, change := range map[string]func(*configuration){
		"applying is slow": func(c *configuration) { c.waits = true },
		"reading is slow":  func(c *configuration) { c.isSlowToRead = true },
	} {
		t.Run(claim, func(t *testing.T) { applyEndsInTime(t, change) })
	}
}

func applyEndsInTime(t *testing.T, change func(*configuration)) {
	t.Helper()
	r := setUp(t)
	change(r.configuration)
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	request := httptest.NewRequestWithContext(ctx, http.MethodPost, "/api/admin/apply", strings.NewReader(`{"tenants":[{"slug":"acme"}]}`))
	request.Header.Set("Authorization", "Bearer "+adminKey)
	request.Header.Set("Content-Type", "application/json")
	got := r.do(request)
	if got.Code != http.StatusServiceUnavailable || got.Header().Get("Retry-After") == "" || !strings.Contains(got.Body.String(), "in time") {
		t.Errorf("answered %d %s, want 503 with Retry-After", got.Code, got.Body)
	}
}
