package api_test

import (
	"encoding/json"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"github.com/danielgtaylor/huma/v2"
	"github.com/google/go-cmp/cmp"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/targets"
)

// TestSettingsOfTargetTypesAgree checks that a setting which several types have is
// identical in each, except for its description and its example, because clients have one type for
// all targets.
func TestSettingsOfTargetTypesAgree(t *testing.T) {
	all := setUp(t).openAPI.Components.Schemas.Map()["Target"]
	shape := func(s huma.Schema) string {
		s.Description, s.Examples = "", nil
		raw, err := json.Marshal(&s)
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	var types []any
	for _, kind := range targets.Types() {
		types = append(types, kind)
		own := huma.SchemaFromType(huma.NewMapRegistry("#/components/schemas/", huma.DefaultSchemaNamer), reflect.TypeOf(targets.NewSettings(kind)))
		for name, one := range own.Properties {
			if diff := cmp.Diff(shape(*one), shape(*all.Properties[name])); diff != "" || one.Description == "" {
				t.Errorf("%s of %s (-its own +all):\n%s", name, kind, diff)
			}
		}
	}
	if diff := cmp.Diff(types, all.Properties["type"].Enum); diff != "" {
		t.Errorf("types (-want +got):\n%s", diff)
	}
}

// secretOf returns the stored secret of a route's first target.
func (r *fixture) secretOf(id string) string {
	r.Helper()
	parsed, err := eventhook.ParseID[eventhook.Route](id)
	r.must(err)
	route, err := r.db.Route(r.Context(), r.crm, parsed)
	r.must(err)
	return route.Targets[0].Secrets.Reveal()
}

func TestSecretsOfTargetsAreWriteOnly(t *testing.T) {
	r := setUp(t)
	const stored = `{"auth_header":"Bearer ` + hush + `"}`
	target := func(url, secret, more string) string {
		return `{"targets":[{"type":"http","url":"` + url + `","auth_header":"` + secret + `"` + more + `}]}`
	}
	const url = "https://internal.example/hook?a&b"
	made := r.admin("POST", routesPath(), `{"name":"calls",`+target(url, "Bearer "+hush, "")[1:]).want(http.StatusCreated)
	want := []any{object{"type": "http", "url": url, "auth_header": "[redacted]"}}
	if diff := cmp.Diff(want, made.object()["targets"]); diff != "" {
		t.Errorf("made (-want +got):\n%s", diff)
	}
	id, _ := made.object()["id"].(string)
	version := 1.0
	for _, c := range []struct {
		claim, patch string
		changes      bool
		secret       string
	}{
		{"a name, and it stays", `{"name":"called"}`, true, stored},
		{"as it is shown", target(url, "[redacted]", ""), false, stored},
		{"as it is stored", target(url, "Bearer "+hush, ""), false, stored},
		{"beside another setting", target(url, "[redacted]", `,"timeout_seconds":7`), true, stored},
		{"a new one", target(url, hush+"2", `,"timeout_seconds":7`), true, `{"auth_header":"` + hush + `2"}`},
		{"none", `{"targets":[{"type":"http","url":"` + url + `"}]}`, true, ""},
	} {
		a := r.admin("PATCH", routesPath(id), c.patch).want(http.StatusOK)
		if c.changes {
			version++
		}
		if got := a.object()["version"]; got != version {
			t.Errorf("%s: version %v, want %v", c.claim, got, version)
		}
		if got := r.secretOf(id); got != c.secret {
			t.Errorf("%s: stored is %s, want %s", c.claim, got, c.secret)
		}
		if strings.Contains(a.Body.String(), hush) {
			t.Errorf("%s: answered %s, want no secret in it", c.claim, a.Body)
		}
	}
	for _, path := range []string{routesPath(), routesPath(id), "/api/admin/audit"} {
		if a := r.admin("GET", path, nil).want(http.StatusOK); strings.Contains(a.Body.String(), hush) || !strings.Contains(a.Body.String(), "http") {
			t.Errorf("%s answered %s, want the target and no secret in it", path, a.Body)
		}
	}
}

func TestTargetSecretIsNotSentToAnotherOrigin(t *testing.T) {
	r := setUp(t)
	made := r.admin("POST", routesPath(), `{"name":"calls","targets":[{"type":"http","url":"https://a.example","auth_header":"`+hush+`"}]}`).want(http.StatusCreated)
	id, _ := made.object()["id"].(string)
	for _, c := range []struct {
		claim, targets string
		want           []string
	}{
		{"another url", `[{"type":"http","url":"https://evil.example","auth_header":"[redacted]"}]`, []string{"body.targets[0].auth_header"}},
		{"the stored URL, and a second target with another URL", `[{"type":"http","url":"https://a.example","auth_header":"[redacted]"},{"type":"http","url":"https://evil.example","auth_header":"[redacted]"}]`,
			[]string{"body.targets[1].auth_header"}},
		{"beside other faults", `[{"type":"http","url":"https://evil.example","auth_header":"[redacted]","method":"GET"},{"type":"task"}]`,
			[]string{"body.targets[0].auth_header", "body.targets[0].method", "body.targets[1].task_kind"}},
	} {
		a := r.admin("PATCH", routesPath(id), `{"targets":`+c.targets+`}`)
		r.wantFaults(a, http.StatusUnprocessableEntity, c.want)
		if !strings.Contains(a.Body.String(), "set again") {
			t.Errorf("%s: answered %s, want it to say what to do", c.claim, a.Body)
		}
	}
	other, _ := r.key("acme", eventhook.ScopeManage)
	r.call(other, "POST", routesPath(), `{"name":"mine","targets":[{"type":"http","url":"https://a.example","auth_header":"[redacted]"}]}`).want(http.StatusUnprocessableEntity)
}
