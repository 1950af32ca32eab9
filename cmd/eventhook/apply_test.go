package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/eventhook/eventhook/internal/cli"
	"github.com/eventhook/eventhook/internal/cli/clitest"
	"github.com/eventhook/eventhook/internal/pgtest"
)

const planSecret = "hush_hush"

// wantRun runs a command and fails the test unless the exit code and the output are
// the expected ones and contain no secret.
func wantRun(t *testing.T, claim string, code int, stdout string, args ...string) clitest.Output {
	t.Helper()
	got := runCommand(args...)
	if got.Code != code {
		t.Errorf("%s: exit code %d, want %d: %s", claim, got.Code, code, got.Stderr)
	}
	if diff := cmp.Diff(stdout, got.Stdout); diff != "" {
		t.Errorf("%s: stdout (-want +got):\n%s", claim, diff)
	}
	if strings.Contains(got.Stdout+got.Stderr, planSecret) {
		t.Errorf("%s: shows the secret: %+v", claim, got)
	}
	return got
}

// edited writes a file of tenants with replaced texts and returns its path.
func edited(t *testing.T, text string, replace ...string) string {
	t.Helper()
	return clitest.WriteFile(t, "tenants.yaml", strings.NewReplacer(replace...).Replace(text))
}

func TestApplyPrintsADiff(t *testing.T) {
	configured(t, pgtest.New(t))
	t.Setenv("SOME_SECRET", planSecret)
	text := strings.ReplaceAll(testTenants, testSecret, `"${SOME_SECRET}"`)
	file := edited(t, text)
	const create = "+ create tenant acme\n+ create source acme/github\n+ create route acme/github/pushes\n"
	const none = "0 created, 0 updated, 0 deleted, 3 unchanged\n"
	wantRun(t, "a dry run", 0, create+"3 to create, 0 to update, 0 to delete, 0 unchanged\n", "apply", "--database", "-f", file, "--dry-run")
	wantRun(t, "a check", cli.ExitUsage, create+"3 to create, 0 to update, 0 to delete, 0 unchanged\n", "apply", "--database", "-f", file, "--check")
	wantRun(t, "the first apply, after the dry runs", 0, create+"3 created, 0 updated, 0 deleted, 0 unchanged\n", "apply", "--database", "-f", file)
	wantRun(t, "the second apply", 0, none, "apply", "--database", "-f", file)
	wantRun(t, "apply of a folder", 0, none, "apply", "--database", "-f", filepath.Dir(file))
	wantRun(t, "verbose", 0, "= unchanged tenant acme\n= unchanged source acme/github\n= unchanged route acme/github/pushes\n"+none, "apply", "--database", "-f", file, "-v")
	wantRun(t, "a check of applied files", 0, "0 to create, 0 to update, 0 to delete, 3 unchanged\n", "apply", "--database", "-f", file, "--check")

	changed := edited(t, text, "- slug: acme", "- slug: acme\n    name: Acme", "{name: pushes,", "{name: pushes, priority: 10, filter: {body.ref: {$regex: '^refs/'}},",
		`["${SOME_SECRET}"]`, `["${SOME_SECRET}", other]`)
	const update = "~ update tenant acme\n    name: \"acme\" -> \"Acme\"\n~ update source acme/github\n    secrets: changed\n" +
		"~ update route acme/github/pushes\n    filter[\"body.ref\"].$regex: null -> \"^refs/\"\n    priority: 0 -> 10\n"
	got := wantRun(t, "a check of changed files", cli.ExitUsage, update+"0 to create, 3 to update, 0 to delete, 0 unchanged\n", "apply", "--database", "-f", changed, "--check")
	if !strings.Contains(got.Stderr, "differs") {
		t.Errorf("the check says %q, want the reason", got.Stderr)
	}
	wantRun(t, "apply of changed files", 0, update+"0 created, 3 updated, 0 deleted, 0 unchanged\n", "apply", "--database", "-f", changed)

	less := edited(t, "tenants: [{slug: acme, name: Acme}]")
	wantRun(t, "less", 0, "0 created, 0 updated, 0 deleted, 1 unchanged\n", "apply", "--database", "-f", less)
	const remove = "- delete route acme/github/pushes\n- delete source acme/github\n"
	wantRun(t, "a check with --prune", cli.ExitUsage, remove+"0 to create, 0 to update, 2 to delete, 1 unchanged\n", "apply", "--database", "-f", less, "--prune", "--check")
	wantRun(t, "pruned", 0, remove+"0 created, 0 updated, 2 deleted, 1 unchanged\n", "apply", "--database", "-f", less, "--prune")
	wantRun(t, "--prune does not delete a tenant", 0, "0 created, 0 updated, 0 deleted, 0 unchanged\n", "apply", "--database", "-f", edited(t, "tenants: []"), "--prune")
	wantRun(t, "the tenant still exists", 0, "0 to create, 0 to update, 0 to delete, 1 unchanged\n", "apply", "--database", "-f", less, "--check")
	t.Setenv("SOME_SECRET", "")
	if got := wantRun(t, "a variable that is not set", cli.ExitUsage, "", "apply", "--database", "-f", file); !strings.Contains(got.Stderr, "SOME_SECRET") {
		t.Errorf("got %q, want the name of the variable", got.Stderr)
	}
}

func TestApplyStopsAtATenantThatCannotBeApplied(t *testing.T) {
	dsn := pgtest.New(t)
	configured(t, dsn)
	three := edited(t, "tenants: [{slug: a}, {slug: b, name: B}, {slug: c}]")
	wantRun(t, "the tenant to close", 0, "+ create tenant b\n1 created, 0 updated, 0 deleted, 0 unchanged\n", "apply", "--database", "-f", edited(t, "tenants: [{slug: b}]"))
	conn := connect(t, dsn)
	if _, err := conn.Exec(t.Context(), `UPDATE eventhook.tenant SET status = 'closed'`); err != nil {
		t.Fatal(err)
	}
	got := wantRun(t, "a closed tenant between two others", cli.ExitFailed, "+ create tenant a\n", "apply", "--database", "-f", three)
	for _, part := range []string{"tenant b: ", "closed", "stay applied: a;", "not tried: 1"} {
		if !strings.Contains(got.Stderr, part) {
			t.Errorf("stderr is %q, want %q in it", got.Stderr, part)
		}
	}
	if n := count(t, conn, `SELECT count(*) FROM eventhook.tenant WHERE slug IN ('a', 'b', 'c')`); n != 2 {
		t.Errorf("there are %d tenants, want the first and the closed one", n)
	}
}

// Commands that only read do not migrate a database, which instances of another
// version may be using.
func TestReadOnlyCommandsDoNotMigrate(t *testing.T) {
	dsn := pgtest.New(t)
	configured(t, dsn)
	file := edited(t, testTenants)
	conn := connect(t, dsn)
	for _, c := range []struct{ change, says string }{
		{`UPDATE eventhook.schema_migrations SET version = version - 1`, "run eventhook migrate"},
		{`UPDATE eventhook.schema_migrations SET version = version + 2`, "newer"},
		{`UPDATE eventhook.schema_migrations SET version = version - 1, dirty = true`, "stopped in the middle"},
		{`DROP SCHEMA eventhook CASCADE`, "run eventhook migrate"},
	} {
		if _, err := conn.Exec(t.Context(), c.change); err != nil {
			t.Fatal(err)
		}
		for _, args := range [][]string{{"apply", "--database", "-f", file, "--dry-run"}, {"apply", "--database", "-f", file, "--check"}, {"export", "--database"}, {"secrets", "status"}, {"secrets", "rotate"}} {
			if got := wantRun(t, strings.Join(args, " "), cli.ExitFailed, "", args...); !strings.Contains(got.Stderr, c.says) {
				t.Errorf("%v says %q, want %q", args, got.Stderr, c.says)
			}
		}
	}
	got := wantRun(t, "apply creates no schema", cli.ExitFailed, "", "apply", "--database", "-f", file)
	if !strings.Contains(got.Stderr, "run eventhook migrate") {
		t.Errorf("got %q, want the command that creates the schema", got.Stderr)
	}
	if n := count(t, conn, `SELECT count(*) FROM pg_namespace WHERE nspname = 'eventhook'`); n != 0 {
		t.Error("the schema was created")
	}
}

func TestApplyPrintsNoControlCharacters(t *testing.T) {
	configured(t, pgtest.New(t))
	got := wantRun(t, "a name", 0, "+ create tenant acme\n+ create source acme/s\n+ create route \"acme/s/a\\x1b[2Kb\"\n3 created, 0 updated, 0 deleted, 0 unchanged\n",
		"apply", "--database", "-f", edited(t, "tenants: [{slug: acme, sources: [{slug: s, verifier: {type: none}, routes: [{name: \"a\\x1b[2Kb\", targets: [{type: task, task_kind: k}]}]}]}]"))
	if strings.Contains(got.Stdout, "\x1b") {
		t.Errorf("got %q", got.Stdout)
	}
}

func TestSecretsInFilesAreApplied(t *testing.T) {
	configured(t, pgtest.New(t))
	file := edited(t, testTenants, testSecret, `"file:github.secret"`)
	secret := filepath.Join(filepath.Dir(file), "github.secret")
	if got := wantRun(t, "without the file", cli.ExitUsage, "", "apply", "--database", "-f", file); !strings.Contains(got.Stderr, `tenants[0].sources[0].secrets[0]: the file "github.secret"`) {
		t.Errorf("got %q, want the location and the path", got.Stderr)
	}
	if err := os.WriteFile(secret, []byte(planSecret+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := runCommand("apply", "--database", "-f", file); got.Code != 0 {
		t.Fatal(got)
	}
	wantRun(t, "the newline at the end is removed", 0, "0 to create, 0 to update, 0 to delete, 3 unchanged\n", "apply", "--database", "--check", "-f", edited(t, testTenants, testSecret, planSecret))
}
