package configs_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/configs"
	"github.com/eventhook/eventhook/route"
)

// wantSame compares configurations with their secrets.
func wantSame(t *testing.T, want, got []eventhook.TenantConfig) {
	t.Helper()
	if diff := cmp.Diff(withoutClosed(want), withoutClosed(got), cmp.Comparer(func(a, b eventhook.Secret) bool { return a.Reveal() == b.Reveal() }),
		cmp.Comparer(func(a, b json.RawMessage) bool { return sameJSON(t, a, b) })); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestEncodedTenantsAreReadAsTheSame(t *testing.T) {
	want := everything(t)
	raw, err := configs.EncodeTenants(want)
	if err != nil {
		t.Fatal(err)
	}
	got, faults := readTenants(t, string(raw))
	if len(faults) > 0 {
		t.Fatalf("%v in\n%s", faults, raw)
	}
	wantSame(t, want, got)
}

func TestFilesOfAnExportHaveTheSameConfiguration(t *testing.T) {
	want := everything(t)
	yaml, err := configs.NewExporter().Export(want)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := configs.NewExporter().ExportJSON(want)
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range secretsOf(t, want) {
		if strings.Contains(string(raw), strings.TrimPrefix(strings.TrimPrefix(secret, "user:"), "https://a.example/")) {
			t.Errorf("the export contains %s", secret)
		}
	}
	files, err := configs.FilesOf(raw, false)
	if err != nil || len(files) != 1 {
		t.Fatalf("got %d files, %v", len(files), err)
	}
	if diff := cmp.Diff(variablesOf(yaml), variablesOf(files[0].YAML)); diff != "" {
		t.Errorf("variables (-YAML +JSON):\n%s", diff)
	}
	env, secrets := map[string]string{}, secretsOf(t, want)
	for i, name := range variablesOf(files[0].YAML) {
		env[name] = secrets[i]
	}
	got, faults := configs.ParseTenants(files[0].YAML, lookup(env))
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	wantSame(t, want, got)
	each, err := configs.FilesOf(raw, true)
	if err != nil {
		t.Fatal(err)
	}
	var slugs, wanted []string
	for i, f := range each {
		slugs, wanted = append(slugs, f.Tenant), append(wanted, want[i].Slug)
	}
	if !slices.Equal(slugs, wanted) {
		t.Errorf("files of %v, want %v", slugs, wanted)
	}
}

// readTenants reads JSON and checks routes without a limit.
func readTenants(t *testing.T, text string) ([]eventhook.TenantConfig, eventhook.Faults) {
	t.Helper()
	got, faults, err := configs.ReadTenants([]byte(text), func(r eventhook.Route) (eventhook.Faults, error) {
		return route.Check(t.Context(), eventhook.TenantID{}, r)
	})
	if err != nil {
		t.Fatal(err)
	}
	return got, faults
}

// A server compiles the expressions of a tenant in the tenant's share of processor time. When the
// share is used up, it compiles no more of them.
func TestExpressionsAreCheckedByTheCaller(t *testing.T) {
	const file = `{"tenants":[{"slug":"acme","sources":[{"slug":"a","verifier":{"type":"none"},"routes":[
		{"name":"plain","targets":[{"type":"task","task_kind":"x"}]},
		{"name":"filter","filter":{"body.a":1},"targets":[{"type":"task","task_kind":"x"}]},
		{"name":"expression","filter_expression":"true","targets":[{"type":"task","task_kind":"x"}]}]}],
		"subscriptions":[{"name":"s","url":"https://a.example","event_types":["*"],"transform":{"type":"jmespath","expression":"@"}}]}]}`
	errBusy := errors.New("busy")
	for answers, checked := range map[string]int{"ok": 3, "busy": 1} {
		calls := 0
		_, faults, err := configs.ReadTenants([]byte(file), func(eventhook.Route) (f eventhook.Faults, err error) {
			if calls++; answers == "busy" {
				return nil, errBusy
			}
			return nil, nil
		})
		if calls != checked || len(faults) > 0 || errors.Is(err, errBusy) != (answers == "busy") {
			t.Errorf("%s: %d checks, %v, %v; want %d checks", answers, calls, faults, err, checked)
		}
	}
}

func TestTheServerResolvesNoReference(t *testing.T) {
	t.Setenv("HOME_OF_SECRETS", "x")
	for written, isRefused := range map[string]bool{
		"${HOME_OF_SECRETS}": true, "${}": true, "file:/etc/hostname": true, "file:": true,
		"a${HOME_OF_SECRETS}": false, "${HOME_OF_SECRETS}b": false, "$$": false, "${unclosed": false, "my file:x": false,
	} {
		file := fmt.Sprintf(`{"tenants":[{"slug":"acme","name":"${NAME}","sources":[{"slug":"a","provider":"github","secrets":["ok",%q]}]}]}`, written)
		got, faults := readTenants(t, file)
		if isRefused {
			if len(faults) != 1 || faults[0].Location != "tenants[0].sources[0].secrets[1]" || !strings.Contains(faults[0].Message, "only the client resolves") {
				t.Errorf("%s: got %v, want a fault of the secret", written, faults)
			}
			continue
		}
		if len(faults) > 0 || got[0].Name != "${NAME}" {
			t.Errorf("%s: got %v, %v; want the texts unchanged", written, got, faults)
			continue
		}
		if secrets := secretsOf(t, got); secrets[1] != written {
			t.Errorf("%s: the secret is %q", written, secrets[1])
		}
	}
}

func TestEveryKindOfSecretIsChecked(t *testing.T) {
	const file = `{"tenants":[{"slug":"acme","sources":[
		{"slug":"a","provider":"meta","secrets":["${A}"],"options":{"verify_token":"${B}"}},
		{"slug":"b","verifier":{"type":"basic_auth","username":"u","password":"file:x"}},
		{"slug":"c","verifier":{"type":"none"},"routes":[{"name":"r","targets":[{"type":"http","url":"https://a.example","auth_header":"${C}"}]}]}],
		"subscriptions":[{"name":"s","url":"${URL}","event_types":["*"],"signing_secret":"${D}","auth_header":"${E}"}]}]}`
	_, faults := readTenants(t, file)
	var at []string
	for _, f := range faults {
		at = append(at, f.Location)
	}
	slices.Sort(at)
	want := []string{"tenants[0].sources[0].options.verify_token", "tenants[0].sources[0].secrets[0]", "tenants[0].sources[1].verifier.password",
		"tenants[0].sources[2].routes[0].targets[0].auth_header", "tenants[0].subscriptions[0].auth_header", "tenants[0].subscriptions[0].signing_secret", "tenants[0].subscriptions[0].url"}
	if diff := cmp.Diff(want, at); diff != "" {
		t.Errorf("faults (-want +got):\n%s", diff)
	}
}

func TestOnlyJSONIsRead(t *testing.T) {
	for _, text := range []string{"", "tenants: []", "&a [*a]", `{"tenants":[}`, `{"tenants":[]} {}`, `{"tenants":null}`, `[]`, `{"tenant":[]}`, `{"tenants":[{"slug":"a","colour":1}]}`} {
		if got, faults := readTenants(t, text); len(faults) == 0 {
			t.Errorf("%q: got %v, want a fault", text, got)
		}
	}
	if got, faults := readTenants(t, `{"tenants":[]}`); len(got) > 0 || len(faults) > 0 {
		t.Errorf("no tenants: got %v, %v", got, faults)
	}
}

func TestAnUnclosedReferenceIsAnError(t *testing.T) {
	for text, name := range map[string]string{`"${NAME"`: "${NAME ", `"x ${NAME and the-secret"`: "${NAME… ", `"${"`: "${ "} {
		_, faults := configs.ParseTenants([]byte("tenants:\n  - slug: acme\n    sources:\n      - {slug: a, provider: github, secrets: ["+text+"]}\n"), lookup(map[string]string{"NAME": "n"}))
		if len(faults) != 1 || faults[0].Location != "line 4" || !strings.Contains(faults[0].Message, "reference "+name) || strings.Contains(faults[0].Message, "the-secret") {
			t.Errorf("%s: got %v, want one fault that names the reference", text, faults)
		}
	}
	got, faults := configs.ParseTenants([]byte(`tenants: [{slug: acme, name: "$${NAME"}]`), lookup(nil))
	if len(faults) > 0 || got[0].Name != "${NAME" {
		t.Errorf("an escaped dollar: got %v, %v", got, faults)
	}
}
