package configs_test

import (
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/configs"
)

func TestSubscriptionFieldsHaveTheNamesOfTheAPI(t *testing.T) {
	got, faults := tenants(t, `
tenants:
  - slug: acme
    subscriptions:
      - name: billing
        url: "https://billing.example/hooks?token=${TOKEN}"
        event_types: ["payment.*"]
        filter: {body.amount: {$gte: 10.50}}
        auth_header: "Bearer ${TOKEN}"
        signing_secret: "${SECRET}"
        status: paused
        headers: {X-Env: prod}
        target_labels: ["env:prod"]
        retry: {max_retries: 0, initial_delay_ms: 100, backoff_multiplier: 1.5, max_delay_ms: 1000, schedule_seconds: [1]}
        timeout_seconds: 5
        disable_after_failures: 0
        max_in_flight: 3
        rate_per_second: 7
        signatures: [v1, v1a]
      - {name: least, url: "http://a.example", event_types: ["*"]}
`, map[string]string{"TOKEN": "t0k", "SECRET": "whsec_" + strings.Repeat("A", 32)})
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	full := eventhook.Subscription{Name: "billing", EventTypes: []string{"payment.*"}, Filter: []byte(`{"body.amount":{"$gte":10.50}}`), Status: "paused",
		SubscriptionSettings: eventhook.SubscriptionSettings{Headers: map[string]string{"X-Env": "prod"}, TargetLabels: []string{"env:prod"},
			Retry:          eventhook.RetryPolicy{MaxRetries: new(0), InitialDelayMS: 100, BackoffMultiplier: 1.5, MaxDelayMS: 1000, ScheduleSeconds: []int{1}},
			TimeoutSeconds: 5, DisableAfterFailures: new(0), MaxInFlight: 3, RatePerSecond: 7, Signatures: []string{"v1", "v1a"}}}
	full.URL, full.AuthHeader = eventhook.NewSecret("https://billing.example/hooks?token=t0k"), eventhook.NewSecret("Bearer t0k")
	full.Signing = []eventhook.SigningSecret{{Secret: eventhook.NewSecret("whsec_" + strings.Repeat("A", 32))}}
	least := eventhook.Subscription{Name: "least", EventTypes: []string{"*"}}
	least.URL = eventhook.NewSecret("http://a.example")
	if diff := cmp.Diff([]eventhook.Subscription{full, least}, got[0].Subscriptions, cmp.Comparer(eventhook.Secret.Equal)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestHeadersMayUseMergeKeys(t *testing.T) {
	got, faults := tenants(t, `
tenants:
  - slug: acme
    subscriptions:
      - {name: a, url: "https://a.example", event_types: ["*"], headers: &common {X-Env: prod}}
      - {name: b, url: "https://b.example", event_types: ["*"], headers: {<<: *common, X-Team: b}}
`, nil)
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	if diff := cmp.Diff(map[string]string{"X-Env": "prod", "X-Team": "b"}, got[0].Subscriptions[1].Headers); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestSubscriptionFaults(t *testing.T) {
	const begin = "tenants:\n  - slug: acme\n    subscriptions:\n"
	const at = "tenants[0].subscriptions[0]"
	for _, c := range []struct {
		claim, text string
		want        []string // place: part of the message
	}{
		{"no fields", "      - {}\n", []string{at + ".name: is required", at + ".event_types: at least one", at + ".url: is required"}},
		{"a name twice", "      - &a {name: a, url: \"https://a.example\", event_types: [a]}\n      - *a\n", []string{"tenants[0].subscriptions[1].name: occurs twice"}},
		{"an empty list", "      []\n", nil},
		{"a list without a value", "", []string{"tenants[0].subscriptions: has no value"}},
		{"event types without a value", "      - {name: a, url: \"https://a.example\", event_types: }\n", []string{at + ".event_types: has no value", at + ".event_types: at least one"}},
		{"an unknown field", "      - {name: a, url: \"https://a.example\", event_types: [a], secret: x}\n", []string{`line 4: there is no field "secret" here`}},
		{"a filter that does not compile", "      - {name: a, url: \"https://a.example\", event_types: [a], filter: {body.a: {$gtee: 1}}}\n", []string{at + ".filter.body.a.$gtee: "}},
		{"a status that cannot be set", "      - {name: a, url: \"https://a.example\", event_types: [a], status: disabled}\n", []string{at + `.status: "disabled", want active or paused`}},
		{"settings out of range", "      - {name: a, url: \"https://a.example\", event_types: [a], timeout_seconds: 61, retry: {max_retries: 11}, headers: {Host: x}}\n",
			[]string{at + ".headers.Host: connection", at + ".retry.max_retries: 11", at + ".timeout_seconds: 61"}},
		{"missing files have one fault each", "      - {name: a, url: \"file:a\", event_types: [a], auth_header: \"file:b\", signing_secret: \"file:c\"}\n",
			[]string{at + ".url: cannot be read", at + ".auth_header: cannot be read", at + ".signing_secret: cannot be read"}},
		{"the placeholder of a stored secret", "      - {name: a, url: \"https://a.example\", event_types: [a], auth_header: \"[redacted]\"}\n",
			[]string{at + ".auth_header: is the placeholder of a stored value"}},
		{"a secret at the wrong place", "      - {name: a, url: \"${HUSH}\", event_types: [\"${HUSH}*\"], signing_secret: \"${HUSH}\"}\n",
			[]string{at + ".event_types[0]: \"${HUSH}*\"", at + ".url: must be a URL", at + ".signing_secret: must be whsec_"}},
	} {
		t.Run(c.claim, func(t *testing.T) {
			_, faults := tenants(t, begin+c.text, map[string]string{"HUSH": "pl4nted"})
			if len(faults) != len(c.want) {
				t.Fatalf("got %q, want %q", faults, c.want)
			}
			for i, f := range faults {
				place, part, _ := strings.Cut(c.want[i], ": ")
				if f.Location != place || !strings.Contains(f.Message, part) || strings.Contains(f.Message, "pl4nted") {
					t.Errorf("got %q, want %q", f, c.want[i])
				}
			}
		})
	}
}

func TestSecretsOfSubscriptionsAreReadFromFiles(t *testing.T) {
	files := map[string]string{"url": "https://a.example/t0k\n", "auth": "Bearer x \n", "secret": "whsec_" + strings.Repeat("A", 32) + "\n"}
	got, err := inFolder(t, `tenants: [{slug: a, subscriptions: [{name: b, url: "file:url", event_types: [c], auth_header: "file:auth", signing_secret: "file:secret"}]}]`, files, nil)
	if err != nil {
		t.Fatal(err)
	}
	s := got[0].Subscriptions[0]
	if read := []string{s.URL.Reveal(), s.AuthHeader.Reveal(), s.Signing[0].Secret.Reveal()}; !cmp.Equal(read, []string{"https://a.example/t0k", "Bearer x", "whsec_" + strings.Repeat("A", 32)}) {
		t.Errorf("read %q", read)
	}
}

func TestAuthOfSubscriptionsAndTargets(t *testing.T) {
	files := map[string]string{"secret": "hush-7f3a9c\n"}
	const file = `tenants: [{slug: a, sources: [{slug: s, verifier: {type: none}, routes: [{name: r, targets: [{type: http, url: "https://a.example",
		auth: {type: aws_sigv4, access_key_id: AKID, secret_access_key: "file:secret", region: eu-west-1, service: lambda}}]}]}],
		subscriptions: [{name: b, url: "https://a.example", event_types: [c], auth: {type: oauth2, token_url: "https://login.example", client_id: gateway, client_secret: "file:secret", scopes: [x]}}]}]`
	got, err := inFolder(t, file, files, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := eventhook.Auth{Type: "oauth2", TokenURL: "https://login.example", ClientID: "gateway", ClientSecret: "hush-7f3a9c", Scopes: []string{"x"}}
	if s := got[0].Subscriptions[0]; !s.Auth.Equal(want.Seal()) {
		t.Errorf("got %s, want %s", s.Auth.Reveal(), want.Seal().Reveal())
	}
	if of := got[0].Sources[0].Routes[0].Targets[0]; of.Secrets.Reveal() != `{"auth.secret_access_key":"hush-7f3a9c"}` || strings.Contains(string(of.Settings), "hush") {
		t.Errorf("the target has the secrets %s and the settings %s", of.Secrets.Reveal(), of.Settings)
	}
	exported, err := configs.NewExporter().ExportJSON(got)
	if err != nil || strings.Contains(string(exported), "hush") || !strings.Contains(string(exported), `"client_secret":"${A_B_AUTH_CLIENT_SECRET}"`) ||
		!strings.Contains(string(exported), `"secret_access_key":"${`) {
		t.Errorf("exported %s, %v", exported, err)
	}
	encoded, err := configs.EncodeTenants(got)
	if err != nil {
		t.Fatal(err)
	}
	again, faults := readTenants(t, string(encoded))
	if len(faults) > 0 || !again[0].Subscriptions[0].Auth.Equal(want.Seal()) {
		t.Errorf("read again: %v", faults)
	}
	if _, err := inFolder(t, strings.ReplaceAll(file, "file:secret", "file:none"), files, nil); err == nil || strings.Count(err.Error(), "none") != 2 {
		t.Errorf("missing files: got %v, want two faults", err)
	}
	inside := func(u *url.URL) error {
		if u.Host == "login.example" {
			return errors.New("not this one")
		}
		return nil
	}
	if err := configs.CheckReceivers(got, inside); err == nil || !strings.Contains(err.Error(), "a/b.auth.token_url: not this one") {
		t.Errorf("a token endpoint inside: got %v", err)
	}
}

func TestCheckReceivers(t *testing.T) {
	list, faults := tenants(t, `tenants: [{slug: a, subscriptions: [{name: open, url: "http://a.example/t0k", event_types: [c]}, {name: good, url: "HTTPS://a.example", event_types: [c]},
		{name: inside, url: "http://10.0.0.1/", event_types: [c], target_labels: ["env:prod"]}]}]`, nil)
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	check := func(u *url.URL) error {
		if u.Scheme != "https" {
			return errors.New("not this one")
		}
		return nil
	}
	if err := configs.CheckReceivers(list, check); err == nil || !strings.Contains(err.Error(), "a/open.url: not this one") || strings.Contains(err.Error(), "t0k") ||
		strings.Contains(err.Error(), "good") || strings.Contains(err.Error(), "inside") {
		t.Errorf("got %v, want a fault of a/open without its URL", err)
	}
	if err := configs.CheckReceivers(nil, check); err != nil {
		t.Errorf("without tenants: got %v, want nil", err)
	}
}

// TestDocumentedFileIsValid parses the file in docs/configuration-as-code.md.
func TestDocumentedFileIsValid(t *testing.T) {
	raw, err := os.ReadFile("../docs/configuration-as-code.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(raw), "```yaml\n")
	text, _, found := strings.Cut(text, "```")
	if !found {
		t.Fatal("the page contains no YAML block")
	}
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "secrets"), 0o700); err != nil {
		t.Fatal(err)
	}
	files := map[string]string{"tenants.yaml": text, "secrets/stripe-old": "whsec_old", "secrets/billing": "whsec_" + strings.Repeat("A", 32)}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got, err := configs.LoadTenants(filepath.Join(dir, "tenants.yaml"), func(name string) (string, bool) { return "value-of-" + name, true })
	if err != nil || len(got[0].Subscriptions) != 1 {
		t.Errorf("got %v, %v", got, err)
	}
}
