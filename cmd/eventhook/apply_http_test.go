package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/configs"
	"github.com/eventhook/eventhook/internal/cli"
	"github.com/eventhook/eventhook/internal/cli/clitest"
	"github.com/eventhook/eventhook/internal/cli/input"
	"github.com/eventhook/eventhook/internal/cpushare"
	"github.com/eventhook/eventhook/internal/pgtest"
)

// atGateway starts a gateway and configures the environment of commands that call it.
func atGateway(t *testing.T) *instance {
	t.Helper()
	i := startInstance(t, pgtest.New(t))
	clitest.ClearEnvironment(t)
	t.Setenv(input.ServerVariable, i.url)
	t.Setenv(input.KeyVariable, testAdminKey)
	return i
}

const httpTenants = `
tenants:
  - slug: umbrella
    name: "Umbrella $${x}"
    max_events_per_day: 5
    sources:
      - {slug: github, provider: github, secrets: ["${SOME_SECRET}"], routes: [{name: pushes, targets: [{type: task, task_kind: build}]}]}
    subscriptions:
      - {name: billing, url: "https://billing.example/in", event_types: ["payment.*"], signing_secret: "file:signing.txt"}
`

// The client resolves the references; the gateway has neither the variable nor the file.
func TestApplyAndExportOverHTTP(t *testing.T) {
	i := atGateway(t)
	t.Setenv("SOME_SECRET", planSecret)
	file := edited(t, httpTenants)
	if err := os.WriteFile(filepath.Join(filepath.Dir(file), "signing.txt"), []byte("whsec_"+strings.Repeat("QUJD", 11)), 0o600); err != nil {
		t.Fatal(err)
	}
	const create = "+ create tenant umbrella\n+ create source umbrella/github\n+ create route umbrella/github/pushes\n+ create subscription umbrella/billing\n"
	wantRun(t, "a check", cli.ExitUsage, create+"4 to create, 0 to update, 0 to delete, 0 unchanged\n", "apply", "-f", file, "--check")
	wantRun(t, "apply", 0, create+"4 created, 0 updated, 0 deleted, 0 unchanged\n", "apply", "-f", file)
	wantRun(t, "apply again", 0, "0 created, 0 updated, 0 deleted, 4 unchanged\n", "apply", "-f", file)
	t.Setenv("SOME_SECRET", "another-"+planSecret)
	wantRun(t, "another secret", 0, "~ update source umbrella/github\n    secrets: changed\n0 created, 1 updated, 0 deleted, 3 unchanged\n", "apply", "-f", file)

	got := runCommand("export", "--tenant", "umbrella")
	for _, want := range []string{configs.ExportHeading, "#   UMBRELLA_GITHUB_SECRET_1", "${UMBRELLA_GITHUB_SECRET_1}", `Umbrella $${x}`, "max_events_per_day: 5"} {
		if got.Code != 0 || !strings.Contains(got.Stdout, want) || strings.Contains(got.Stdout, planSecret) {
			t.Errorf("the export is %+v, want %q and no secret", got, want)
		}
	}
	t.Setenv("UMBRELLA_GITHUB_SECRET_1", "another-"+planSecret)
	t.Setenv("UMBRELLA_BILLING_URL", "https://billing.example/in")
	t.Setenv("UMBRELLA_BILLING_SIGNING_SECRET", "whsec_"+strings.Repeat("QUJD", 11))
	wantRun(t, "a check of the export", 0, "0 to create, 0 to update, 0 to delete, 4 unchanged\n", "apply", "--check", "-f", edited(t, got.Stdout))
	folder := t.TempDir()
	if got := runCommand("export", "-o", folder); got.Code != 0 {
		t.Fatal(got)
	}
	clitest.WantFiles(t, folder, "acme.yaml", "umbrella.yaml")

	less := edited(t, "tenants: [{slug: umbrella, name: \"Umbrella $${x}\"}]")
	wantRun(t, "--prune", 0, "- delete route umbrella/github/pushes\n- delete source umbrella/github\n- delete subscription umbrella/billing\n0 created, 0 updated, 3 deleted, 1 unchanged\n",
		"apply", "-f", less, "--prune")
	i.stop()
}

func TestATenantsKeyAppliesItsOwnTenant(t *testing.T) {
	i := atGateway(t)
	created := runCommand("key", "create", "ci", "--scope", "manage", "--tenant", "acme", "-o", "json")
	var key struct{ Key string }
	if err := json.Unmarshal([]byte(created.Stdout), &key); err != nil {
		t.Fatal(created, err)
	}
	t.Setenv(input.KeyVariable, key.Key)
	file := edited(t, "tenants: [{slug: acme, name: Acme Inc}]")
	wantRun(t, "its own tenant", 0, "~ update tenant acme\n    name: \"acme\" -> \"Acme Inc\"\n0 created, 1 updated, 0 deleted, 0 unchanged\n", "apply", "-f", file)
	for claim, c := range map[string]struct{ text, says string }{
		"another tenant":   {"tenants: [{slug: other}]", "404"},
		"a quota":          {"tenants: [{slug: acme, max_events_per_day: 1}]", "tenants[0]: max_events_per_day and max_storage_bytes can be set with the admin key only"},
		"a private target": {"tenants: [{slug: acme, subscriptions: [{name: s, url: \"http://10.0.0.1/x\", event_types: [a]}]}]", "acme/s.url"},
	} {
		if got := runCommand("apply", "-f", edited(t, c.text)); got.Code == 0 || !strings.Contains(got.Stderr, c.says) || strings.Contains(got.Stderr, "body.") {
			t.Errorf("%s: got %+v, want %q", claim, got, c.says)
		}
	}
	t.Setenv(input.TenantVariable, "acme")
	if got := runCommand("export"); got.Code != 0 || !strings.Contains(got.Stdout, "name: Acme Inc") {
		t.Errorf("export of the tenant: got %+v", got)
	}
	i.stop()
}

// The expressions of a file are compiled in the tenant's share of processor time, as if each route
// were written alone. Operators' files have no share.
func TestAppliedExpressionsDrawOnTheTenantsShare(t *testing.T) {
	tenant, now := eventhook.NewID[eventhook.Tenant](time.Now()), time.Now()
	limiter := cpushare.New(cpushare.Config{Processors: 0.01, Burst: time.Second, Tenants: 10}, nil, func() time.Time { now = now.Add(time.Minute); return now })
	c := configuration{routes: routeExplainer{cpuLimiter: limiter}}
	const file = `{"tenants":[{"slug":"acme","subscriptions":[{"name":"s","url":"https://a.example","event_types":["*"],"filter":{"body.a":1}}]}]}`
	ctx, cancel := context.WithCancel(t.Context())
	if _, faults, err := c.ReadConfiguration(ctx, tenant, []byte(file)); err != nil || len(faults) > 0 {
		t.Fatalf("got %v, %v; want no faults", faults, err)
	}
	cancel() // the share was used up by a check that took a minute
	if _, _, err := c.ReadConfiguration(ctx, tenant, []byte(file)); err == nil {
		t.Error("a used up share: got no error")
	}
	if _, faults, err := c.ReadConfiguration(t.Context(), eventhook.TenantID{}, []byte(file)); err != nil || len(faults) > 0 {
		t.Errorf("the operator: got %v, %v; want no faults", faults, err)
	}
}

func TestADatabaseIsSaidAndNeverGuessed(t *testing.T) {
	file := edited(t, testTenants)
	data := t.TempDir()
	for _, c := range []struct {
		claim string
		args  []string
		says  string
	}{
		{"--database without a URL", []string{"apply", "--database", "-f", file, "--data-dir", data}, "--database requires DATABASE_URL"},
		{"export without a URL", []string{"export", "--database", "--data-dir", data}, "--database requires DATABASE_URL"},
		{"a URL without --database", []string{"apply", "-f", file, "--database-url", "postgres://h/d"}, "--database-url requires --database"},
		{"a configuration without --database", []string{"export", "--config", file}, "--config requires --database"},
		{"a gateway and --database", []string{"apply", "--database", "-f", file, "--server", "http://localhost:1"}, "cannot be combined with --database"},
		{"-v without --database", []string{"apply", "-f", file, "-v"}, "--verbose requires --database"},
	} {
		clitest.ClearEnvironment(t)
		if got := runCommand(c.args...); got.Code != cli.ExitUsage || !strings.Contains(got.Stderr, c.says) {
			t.Errorf("%s: got %+v, want exit code 2 and %q", c.claim, got, c.says)
		}
	}
	clitest.WantFiles(t, data) // no cluster, no keys
}

func TestTenantsAreSentInPartsWithinTheLimits(t *testing.T) {
	var tenants []eventhook.TenantConfig
	for n := range 12_000 {
		slug := fmt.Sprintf("t%d", n)
		tenants = append(tenants, eventhook.TenantConfig{Tenant: eventhook.Tenant{Slug: slug, Name: strings.Repeat("n", 150)}})
	}
	parts, err := partsOf(tenants, false)
	if err != nil || len(parts) != 3 {
		t.Fatalf("got %d parts, %v; want 3", len(parts), err)
	}
	sent := 0
	for _, p := range parts {
		got, faults, err := configs.ReadTenants(p.body, nil)
		if err != nil || len(faults) > 0 || len(p.body) > 2<<20 || p.tenant != "" {
			t.Errorf("a part of %d bytes has %d faults", len(p.body), len(faults))
		}
		sent += len(got)
	}
	if sent != len(tenants) {
		t.Errorf("the parts have %d tenants, want %d", sent, len(tenants))
	}
	if each, err := partsOf(tenants[:2], true); err != nil || len(each) != 2 || each[1].tenant != "t1" {
		t.Errorf("each on its own: got %d parts, %v", len(each), err)
	}
	if none, err := partsOf(nil, false); err != nil || len(none) != 1 || string(none[0].body) != `{"tenants":[]}` {
		t.Errorf("no tenants: got %v, %v", none, err)
	}
}
