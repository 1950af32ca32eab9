package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/eventhook/eventhook/configs"
	"github.com/eventhook/eventhook/internal/cli"
	"github.com/eventhook/eventhook/internal/cli/clitest"
	"github.com/eventhook/eventhook/internal/pgtest"
)

const exportedTenants = `
tenants:
  - slug: zoo
    sources: [{slug: crm, verifier: {type: hmac, header: X-Signature, secrets: [hush_hush]}}]
  - slug: acme
    name: Acme
    max_events_per_day: 1000
    sources:
      - {slug: meta, provider: meta, secrets: [hush_hush 1, hush_hush 2], options: {verify_token: hush_hush_3}}
      - slug: github
        provider: github
        secrets: [hush_hush]
        allowed_ip_ranges: [192.0.2.0/24]
        routes:
          - name: pushes
            filter: {body.size: {$gte: 1.50}, body.ref: [refs/heads/main]}
            filter_expression: event.id != ''
            transform: {type: jmespath, expression: "{ref: ref}"}
            targets: [{type: task, task_kind: build}]
`

// exported applies tenants and returns their export. It sets the variables that the
// export names.
func exported(t *testing.T) string {
	t.Helper()
	configured(t, pgtest.New(t))
	if got := runCommand("apply", "--database", "-f", clitest.WriteFile(t, "t.yaml", exportedTenants)); got.Code != 0 {
		t.Fatal(got)
	}
	got := runCommand("export", "--database")
	if got.Code != 0 || got.Stderr != "" || strings.Contains(got.Stdout, planSecret) {
		t.Fatalf("got %+v, want an export without a secret", got)
	}
	for name, value := range map[string]string{"ZOO_CRM_SECRET_1": planSecret, "ACME_GITHUB_SECRET_1": planSecret, "ACME_META_SECRET_1": planSecret + " 1",
		"ACME_META_SECRET_2": planSecret + " 2", "ACME_META_VERIFY_TOKEN": planSecret + "_3"} {
		if !strings.Contains(got.Stdout, "#   "+name+"\n") || !strings.Contains(got.Stdout, `"${`+name+`}"`) {
			t.Errorf("the export does not name %s:\n%s", name, got.Stdout)
		}
		t.Setenv(name, value)
	}
	return got.Stdout
}

const noDrift = "0 to create, 0 to update, 0 to delete, 6 unchanged\n"

func TestExportEqualsApply(t *testing.T) {
	text := exported(t)
	file := clitest.WriteFile(t, "exported.yaml", text)
	wantRun(t, "no drift", 0, noDrift, "apply", "--database", "--check", "--prune", "-f", file)
	if again := runCommand("export", "--database").Stdout; again != text {
		t.Errorf("exported again:\n%s\nwant\n%s", again, text)
	}
	t.Setenv("ZOO_CRM_SECRET_1", "another")
	wantRun(t, "another secret", cli.ExitUsage, "~ update source zoo/crm\n    secrets: changed\n0 to create, 1 to update, 0 to delete, 5 unchanged\n",
		"apply", "--database", "--check", "-f", file)
	configured(t, pgtest.New(t))
	if got := runCommand("apply", "--database", "-f", file); got.Code != 0 {
		t.Fatal(got)
	}
	if moved := runCommand("export", "--database").Stdout; moved != text {
		t.Errorf("the export of another database is\n%s\nwant\n%s", moved, text)
	}
}

func TestExportOfSomeTenants(t *testing.T) {
	exported(t)
	got := runCommand("export", "--database", "--tenant", "zoo")
	if got.Code != 0 || !strings.Contains(got.Stdout, "slug: zoo") || strings.Contains(got.Stdout, "acme") || strings.Contains(got.Stdout, "ACME") {
		t.Errorf("got %+v, want only zoo", got)
	}
	if got := runCommand("export", "--database", "--tenant", "zoo", "--tenant", "nobody"); got.Code != cli.ExitFailed || got.Stdout != "" || !strings.Contains(got.Stderr, "nobody") {
		t.Errorf("got %+v, want it to fail and name the tenant", got)
	}
}

func TestExportToAFolder(t *testing.T) {
	exported(t)
	dir := filepath.Join(t.TempDir(), "new")
	for range 2 { // the second time over the first
		if got := runCommand("export", "--database", "-o", dir); got.Code != 0 || got.Stdout != "" {
			t.Fatalf("got %+v", got)
		}
	}
	clitest.WantFiles(t, dir, "acme.yaml", "zoo.yaml")
	wantRun(t, "the folder", 0, noDrift, "apply", "--database", "--check", "--prune", "-f", dir)
	mine := filepath.Join(dir, "zoo.yaml")
	if err := os.WriteFile(mine, []byte("# mine\n"+configs.ExportHeading+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := runCommand("export", "--database", "-o", dir); got.Code != cli.ExitFailed || !strings.Contains(got.Stderr, "zoo.yaml") {
		t.Errorf("got %+v, want a failure without a change of the file", got)
	}
	if raw, err := os.ReadFile(mine); err != nil || !strings.HasPrefix(string(raw), "# mine\n") {
		t.Errorf("the file is now %s, %v", raw, err)
	}
}

func TestClosedTenantsAreNotExported(t *testing.T) {
	dsn := pgtest.New(t)
	configured(t, dsn)
	if got := runCommand("apply", "--database", "-f", clitest.WriteFile(t, "t.yaml", "tenants: [{slug: a}, {slug: b}, {slug: c}]")); got.Code != 0 {
		t.Fatal(got)
	}
	if _, err := connect(t, dsn).Exec(t.Context(), `UPDATE eventhook.tenant SET status = 'closed' WHERE slug = 'b'`); err != nil {
		t.Fatal(err)
	}
	wantRun(t, "the open tenants", 0, configs.ExportHeading+"\ntenants:\n  - slug: a\n    name: a\n  - slug: c\n    name: c\n", "export", "--database")
}
