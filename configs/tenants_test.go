package configs_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/configs"
	"github.com/eventhook/eventhook/verify"
)

// lookup returns a lookup function for variables.
func lookup(env map[string]string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		v, ok := env[name]
		return v, ok
	}
}

// tenants parses the text of one file.
func tenants(t *testing.T, text string, env map[string]string) ([]eventhook.TenantConfig, eventhook.Faults) {
	t.Helper()
	return configs.ParseTenants([]byte(text), lookup(env))
}

func TestDemoIsValid(t *testing.T) {
	got, faults := configs.ParseTenants(configs.Demo, lookup(map[string]string{"GITHUB_WEBHOOK_SECRET": "g", "STRIPE_WEBHOOK_SECRET": "s"}))
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	types := map[string]bool{}
	for _, s := range got[0].Sources {
		for _, r := range s.Routes {
			for _, target := range r.Targets {
				types[target.Type] = true
			}
		}
	}
	for _, typ := range []string{eventhook.TargetWorkflow, eventhook.TargetTask, eventhook.TargetPromise} {
		if !types[typ] {
			t.Errorf("no route has a %s target", typ)
		}
	}
}

func TestTenantFieldsHaveTheNamesOfTheAPI(t *testing.T) {
	got, faults := tenants(t, `
tenants:
  - slug: acme
    sources:
      - slug: github
        provider: github
        secrets: ["${SECRET}", "$${SECRET}", "a$b"]
        retry: {max_retries: 0, schedule_seconds: [30, 120]}
        rate_limit: {requests_per_second: 5}
        response: {status: 202, content_type: text/plain, body: ok}
        routes:
          - name: pushes
            priority: 3
            filter_event_types: [push, "issue.*"]
            targets:
              - {type: task, task_kind: build, queue: ci, max_attempts: 2}
              - {type: promise, idempotency_key_path: body.id, resolve: false, on_missing: fail}
          - {name: off, is_enabled: false, targets: [{type: workflow, workflow_kind: w}]}
      - slug: open
        name: Open
        is_enabled: false
        verifier: {type: none}
  - {slug: empty, name: Nobody}
`, map[string]string{"SECRET": "it's \"${x}\": #1"})
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	verifier := func(c verify.Spec) string {
		raw, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	want := []eventhook.TenantConfig{
		{Tenant: eventhook.Tenant{Slug: "acme"}, Sources: []eventhook.SourceConfig{
			{
				Source: eventhook.Source{Slug: "github", Name: "github", Provider: "github", SecretsCount: 3, IsEnabled: true,
					SourceSettings: eventhook.SourceSettings{
						Retry: eventhook.RetryPolicy{MaxRetries: new(0), ScheduleSeconds: []int{30, 120}}, RateLimit: eventhook.RateLimit{RequestsPerSecond: 5},
						Response: &eventhook.SourceReply{Status: 202, ContentType: "text/plain", Body: "ok"},
					}},
				Routes: []eventhook.Route{
					{Name: "pushes", Priority: 3, IsEnabled: true, FilterEventTypes: []string{"push", "issue.*"}, Targets: []eventhook.Target{
						{Type: "task", Settings: []byte(`{"max_attempts":2,"queue":"ci","task_kind":"build"}`)},
						{Type: "promise", Settings: []byte(`{"idempotency_key_path":"body.id","on_missing":"fail","resolve":false}`)},
					}},
					{Name: "off", Targets: []eventhook.Target{{Type: "workflow", Settings: []byte(`{"workflow_kind":"w"}`)}}},
				},
			},
			{Source: eventhook.Source{Slug: "open", Name: "Open"}},
		}},
		{Tenant: eventhook.Tenant{Slug: "empty", Name: "Nobody"}},
	}
	revealed := map[string]string{}
	for i := range got {
		for j := range got[i].Sources {
			s := &got[i].Sources[j]
			revealed[s.Slug] = s.Verifier.Reveal()
			s.Verifier = eventhook.Secret{}
		}
	}
	if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b eventhook.Secret) bool { return a.IsZero() == b.IsZero() })); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]string{
		"github": verifier(verify.Spec{Provider: "github", Secrets: []string{`it's "${x}": #1`, "${SECRET}", "a$b"}}),
		"open":   verifier(verify.Spec{Verifier: &verify.Config{Type: "none"}}),
	}, revealed); diff != "" {
		t.Errorf("verifiers (-want +got):\n%s", diff)
	}
}

// manyRoutes returns the YAML of n more routes.
func manyRoutes(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "\n          - {name: r%d, targets: [{type: task, task_kind: k}]}", i+1)
	}
	return b.String()
}

// manyTargets returns the YAML of routes with n targets in total.
func manyTargets(n int) string {
	var b strings.Builder
	for i := 0; n > 0; i++ {
		has := min(n, eventhook.MaxTargets)
		n -= has
		fmt.Fprintf(&b, "\n          - {name: r%d, targets: [%s]}", i, strings.TrimSuffix(strings.Repeat("{type: task, task_kind: k}, ", has), ", "))
	}
	return b.String()
}

func TestTenantFaults(t *testing.T) {
	const source = "tenants:\n  - slug: acme\n    sources:\n      - slug: crm\n        "
	const route = source + "provider: github\n        secrets: [s]\n        routes:\n          - "
	const subscription = "tenants:\n  - slug: a\n    subscriptions:\n      - name: n\n        url: https://a.example\n        event_types: [a]\n        "
	for _, c := range []struct {
		claim, text string
		want        []string // location: a part of the message
	}{
		{"every variable that is not set", source + "provider: github\n        secrets: [\"${ONE}\", \"${TWO} ${THREE}\", \"${EMPTY}\"]",
			[]string{"line 6: ONE", "line 6: TWO", "line 6: THREE", "line 6: EMPTY"}},
		{"an unknown field", source + "provider: github\n        secrets: [s]\n        secret: x", []string{`line 7: "secret"`}},
		{"several unknown fields", "tenants:\n  - {slug: a, nam: x}\n  - {slug: b, sorces: []}", []string{`line 2: "nam"`, `line 3: "sorces"`}},
		{"an unknown field and other faults", "tenants:\n  - slug: A\n    nam: x\n    sources:\n      - {slug: s, provider: gitlob, secrets: [\"${ONE}\"]}",
			[]string{`line 3: "nam"`, "line 5: ONE", "tenants[0].slug: lower-case", "tenants[0].sources[0].provider: is unknown"}},
		{"a wrong type and a variable that is not set", source + "provider: [x]\n        secrets: [\"${ONE}\"]", []string{"line 5: want a text", "line 6: ONE"}},
		{"too many routes", route + "{name: r0, targets: [{type: task, task_kind: k}]}" + manyRoutes(eventhook.MaxRoutes),
			[]string{"tenants[0].sources[0].routes: 1001, at most 1000"}},
		{"too many targets in all", route + strings.TrimPrefix(strings.TrimSpace(manyTargets(eventhook.MaxSourceTargets+1)), "- "),
			[]string{"tenants[0].sources[0].routes: 5001 targets in all, at most 5000"}},
		{"a text instead of a list", source + "secrets: x", []string{"line 5: want a list"}},
		{"an unknown field in a merged mapping", subscription + "<<: {timeout_second: 5}",
			[]string{`line 7: "timeout_second"`}},
		{"a list for a text in a list of merged mappings", "tenants:\n  - <<: [{slug: [a]}]", []string{"line 2: want a text"}},
		{"a header twice", subscription + "headers: {X-A: b, X-A: c}", []string{`line 7: the field "X-A" occurs twice`}},
		{"two merges", subscription + "<<: {timeout_seconds: 5}\n        <<: {timeout_seconds: 6}", []string{`line 8: the field "<<" occurs twice`}},
		{"a list as the name of a field", subscription + "? [a, b]\n        : c", []string{"line 7: the name of a field must be a text"}},
		{"a list for a header", subscription + "headers: {X-A: [b]}", []string{"line 7: X-A has a list, want a text"}},
		{"a number with a fraction for a whole number", route + "{name: r, priority: 1.5}", []string{"line 8: priority has a number, want a whole number"}},
		{"a text instead of a number", route + "{name: r, priority: high}", []string{"line 8: priority has a text, want a whole number"}},
		{"a list instead of fields", "tenants: [[]]", []string{"line 1: want fields"}},
		{"invalid YAML", "tenants:\n  [", []string{"line 3: is not YAML"}},
		{"an empty file", "", []string{"tenants: is required"}},
		{"a comment", "# nothing\n", []string{"tenants: is required"}},
		{"two documents", "tenants: []\n---\ntenants: []\n", []string{": more than one document"}},
		{"a tenant twice", "tenants:\n  - slug: a\n  - slug: a", []string{"tenants[1].slug: twice"}},
		{"a source twice", "tenants:\n  - slug: a\n    sources:\n      - {slug: s, verifier: {type: none}}\n      - {slug: s, verifier: {type: none}}",
			[]string{"tenants[0].sources[1].slug: twice"}},
		{"a route twice", route + "{name: r, targets: [{type: task, task_kind: k}]}\n          - {name: r, targets: [{type: task, task_kind: k}]}",
			[]string{"tenants[0].sources[0].routes[1].name: twice"}},
		{"an unknown provider", source + "provider: gitlob\n        secrets: [s]", []string{"tenants[0].sources[0].provider: is unknown"}},
		{"a provider without secrets", source + "provider: github", []string{"tenants[0].sources[0].secrets: "}},
		{"an unknown broker", source + "consume: {type: zeromq}", []string{"tenants[0].sources[0].consume.type: zeromq"}},
		{"a broker without its topic", source + "consume: {type: kafka, brokers: \"k:9092\", group: g}", []string{"tenants[0].sources[0].consume.topic: "}},
		{"a broker that is a text", source + "consume: kafka", []string{"tenants[0].sources[0].consume: object"}},
		{"a broker and a provider", source + "provider: github\n        consume: {type: kafka, brokers: \"k:9092\", group: g, topic: t}",
			[]string{"tenants[0].sources[0].provider: no use"}},
		{"a redacted password of a broker", source + "consume: {type: amqp, url: \"amqp://m\", queue: q, username: u, password: \"[redacted]\"}",
			[]string{"tenants[0].sources[0].consume.password: no secret is stored"}},
		{"neither provider nor verifier", source + "name: x", []string{"tenants[0].sources[0].provider: {type: none}"}},
		{"a verifier and secrets", source + "verifier: {type: none}\n        secrets: [s]", []string{"tenants[0].sources[0].secrets: verifier"}},
		{"a verifier without a type", source + "verifier: {header: X}", []string{"tenants[0].sources[0].verifier.type: none"}},
		{"a fault of the verifier", source + "verifier: {type: none, secrets: [s]}", []string{"tenants[0].sources[0].verifier.secrets: not used"}},
		{"no target", route + "{name: r}", []string{"tenants[0].sources[0].routes[0].targets: required"}},
		{"faults everywhere", "tenants:\n  - slug: A\n    sources:\n      - slug: B\n        verifier: {type: none}\n        max_body_bytes: -1\n        routes: [{name: \"\", targets: [{type: fly}]}]",
			[]string{"tenants[0].slug: lower-case", "tenants[0].sources[0].slug: lower-case", "tenants[0].sources[0].max_body_bytes: -1",
				"tenants[0].sources[0].routes[0].name: required", "tenants[0].sources[0].routes[0].targets[0].type: fly"}},
		{"a variable instead of a number", source + "provider: github\n        secrets: [s]\n        max_body_bytes: ${SIZE}", []string{"line 7: want a whole number"}},
	} {
		t.Run(c.claim, func(t *testing.T) {
			_, faults := tenants(t, c.text, map[string]string{"EMPTY": "", "SIZE": "1"})
			if len(faults) != len(c.want) {
				t.Fatalf("got %q, want %q", faults, c.want)
			}
			for i, f := range faults {
				if at, part, _ := strings.Cut(c.want[i], ": "); f.Location != at || !strings.Contains(f.Message, part) {
					t.Errorf("got %q at %q, want %q", f.Message, f.Location, c.want[i])
				}
			}
		})
	}
}

func TestTenantErrorsContainNoSecret(t *testing.T) {
	const source = "tenants:\n  - slug: acme\n    sources:\n      - slug: crm\n        "
	for claim, text := range map[string]string{
		"a secret instead of a list":         source + "provider: github\n        secrets: " + hiddenText,
		"a secret instead of a number":       source + "provider: github\n        secrets: [s]\n        max_body_bytes: " + hiddenText,
		"a secret as the whole file":         hiddenText,
		"a secret in broken YAML":            source + "secrets: [\"" + hiddenText,
		"a secret that reads as an alias":    source + "secrets: [*" + hiddenText[:9] + "]",
		"a secret that reads as a tag":       source + "max_body_bytes: !" + hiddenText + " x",
		"a variable in a slug":               "tenants:\n  - slug: ${HUSH}",
		"a variable in a provider":           source + "provider: ${HUSH}\n        secrets: [s]",
		"a variable in a network":            source + "verifier: {type: none}\n        allowed_ip_ranges: [\"${HUSH}\"]",
		"a variable in a type":               source + "verifier: {type: \"${HUSH}\"}",
		"an escaped variable in a slug":      "tenants:\n  - slug: ${STRANGE}",
		"a variable in an invalid route":     source + "verifier: {type: none}\n        routes: [{name: r, filter_event_types: [\"${HUSH}*x\"], targets: [{type: task, task_kind: k}]}]",
		"a valid secret, another fault":      source + "provider: github\n        secrets: [\"${HUSH}\"]\n        max_body_bytes: -1",
		"a valid target secret, other fault": source + "verifier: {type: none}\n        routes: [{name: r, targets: [{type: http, url: x, auth_header: \"${HUSH}\"}]}]",
		"a fault of a target's secret":       source + "verifier: {type: none}\n        routes: [{name: r, targets: [{type: http, url: \"https://${HUSH}@a.example\", auth_header: \"" + hiddenText + "\\n\"}]}]",
		"a secret that is not used":          source + "verifier: {type: hmac, header: X, secrets: [\"${HUSH}\"], password: " + hiddenText + "}",
	} {
		t.Run(claim, func(t *testing.T) {
			_, err := configs.LoadTenants(file(t, "t.yaml", text), lookup(map[string]string{"HUSH": hiddenText, "STRANGE": hiddenText + "\"\n\x01"}))
			if err == nil {
				t.Fatal("got no error")
			}
			if strings.Contains(err.Error(), hiddenText) || strings.Contains(err.Error(), hiddenText[:7]) {
				t.Errorf("the error shows the secret: %v", err)
			}
		})
	}
}

func TestLoadTenantsFromAFolder(t *testing.T) {
	folder := func(files map[string]string) string {
		dir := t.TempDir()
		for name, text := range files {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		return dir
	}
	t.Run("files are read in the order of their names", func(t *testing.T) {
		got, err := configs.LoadTenants(folder(map[string]string{"2.yaml": "tenants: [{slug: b}]", "1.yml": "tenants: [{slug: a}]", "0.txt": "x"}), lookup(nil))
		if err != nil {
			t.Fatal(err)
		}
		if len(got) != 2 || got[0].Slug != "a" || got[1].Slug != "b" {
			t.Errorf("got %v, want a and b", got)
		}
	})
	for _, c := range []struct {
		claim string
		files map[string]string
		want  []string
	}{
		{"faults of all files", map[string]string{"a.yaml": "tenants: [{slug: A}]", "b.yaml": "tenants: [{slug: \"${X}\"}]", "c.yaml": "tenents: []"},
			[]string{"a.yaml:1: tenants[0].slug", "b.yaml:1", "b.yaml:1: tenants[0].slug", "c.yaml:1"}},
		{"each fault has its line", map[string]string{"a.yaml": "tenants:\n  - name: x\n    sources:\n      - &s\n        slug: S\n        provider: github\n      -\n        *s\n  - slug: b\n    nam: x"},
			[]string{"a.yaml:10", "a.yaml:2: tenants[0].slug", "a.yaml:4: tenants[0].sources[0].secrets", "a.yaml:5: tenants[0].sources[0].slug",
				"a.yaml:5: tenants[0].sources[1].slug", "a.yaml:5: tenants[0].sources[1].slug", "a.yaml:8: tenants[0].sources[1].secrets"}},
		{"invalid YAML and empty files", map[string]string{"a.yaml": "", "b.yaml": "tenants: *x", "c.yaml": "tenants: []\n---\n"}, []string{"a.yaml: tenants", "b.yaml:1", "c.yaml"}},
		{"a tenant in two files", map[string]string{"a.yaml": "tenants: [{slug: a}]", "b.yaml": "tenants: [{slug: a}]"}, []string{"b.yaml"}},
	} {
		t.Run(c.claim, func(t *testing.T) {
			_, err := configs.LoadTenants(folder(c.files), lookup(nil))
			if diff := cmp.Diff(c.want, locations(t, err)); diff != "" {
				t.Errorf("%v: locations (-want +got):\n%s", err, diff)
			}
		})
	}
	for claim, path := range map[string]string{"an empty folder": folder(nil), "a missing folder": filepath.Join(t.TempDir(), "x")} {
		if _, err := configs.LoadTenants(path, lookup(nil)); len(locations(t, err)) != 1 {
			t.Errorf("%s: got %v, want a fault", claim, err)
		}
	}
}

// A truncated file must not be taken for a file that deletes resources.
func TestListsWithoutAValueAreRefused(t *testing.T) {
	for text, want := range map[string]string{
		"tenants:\n":                           "tenants",
		"tenants: [null]\n":                    "tenants[0]",
		"tenants: [{slug: a, sources: }]\n":    "tenants[0].sources",
		"tenants: [{slug: a, sources: [~]}]\n": "tenants[0].sources[0]",
		"tenants:\n- slug: a\n  sources:\n  - slug: b\n    verifier: {type: none}\n    routes:\n": "tenants[0].sources[0].routes",
	} {
		_, faults := configs.ParseTenants([]byte(text), func(string) (string, bool) { return "", false })
		if !slices.ContainsFunc(faults, func(f eventhook.Fault) bool {
			return f.Location == want && strings.HasPrefix(f.Message, "has no value")
		}) {
			t.Errorf("%q: got %v, want a fault of %s", text, faults, want)
		}
	}
	if _, faults := configs.ParseTenants([]byte("tenants: [{slug: a, sources: []}]"), nil); len(faults) > 0 {
		t.Errorf("an empty list: got %v, want none", faults)
	}
}

func TestFilesOverTheSizeLimitAreRefused(t *testing.T) {
	if _, err := configs.LoadTenants("/dev/zero", nil); err == nil || !strings.Contains(err.Error(), "regular file") {
		t.Errorf("got %v, want a refusal without reading it", err)
	}
}

func TestBooleansOfYAML11AreAccepted(t *testing.T) {
	got, faults := tenants(t, "tenants: [{slug: a, sources: [{slug: s, is_enabled: no, verifier: {type: none}}]}]", nil)
	if len(faults) > 0 || got[0].Sources[0].IsEnabled {
		t.Errorf("is_enabled: no: got %v, %v, want a disabled source", got, faults)
	}
}

// Nested lists of aliases would otherwise take time that grows exponentially.
func TestAliasesAreCheckedOnce(t *testing.T) {
	text := "tenants:\n  - slug: a\n    sources: [&one {slug: s, nam: x}" + strings.Repeat(", *one", 1000) + "]\n"
	_, faults := tenants(t, text, nil)
	count := 0
	for _, f := range faults {
		if strings.Contains(f.Message, `"nam"`) {
			count++
		}
	}
	if count != 1 {
		t.Errorf("got %d faults of one field with 1000 aliases, want 1", count)
	}
}
