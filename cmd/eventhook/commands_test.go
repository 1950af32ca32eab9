package main

import (
	"strings"
	"testing"

	"github.com/eventhook/eventhook/internal/cli"
	"github.com/eventhook/eventhook/internal/cli/clitest"
	"github.com/eventhook/eventhook/internal/pgtest"
)

func runCommand(args ...string) clitest.Output { return clitest.Run(run, args...) }

// configured sets the variables of a command that uses a database.
func configured(t *testing.T, dsn string) {
	t.Helper()
	clitest.ClearEnvironment(t)
	t.Setenv("DATABASE_URL", dsn)
	t.Setenv("EVENTHOOK_ADMIN_KEY", testAdminKey)
	t.Setenv("EVENTHOOK_ENCRYPTION_KEYS", testEncryptionKey)
}

func TestExitCodes(t *testing.T) {
	clitest.ClearEnvironment(t)
	bad := clitest.WriteFile(t, "bad.yaml", "listn: \":1\"\nlease_seconds: soon\n")
	badTenants := clitest.WriteFile(t, "tenants.yaml", "tenants: [{slug: A}]")
	inside := clitest.WriteFile(t, "inside.yaml", `tenants: [{slug: acme, subscriptions: [{name: in, url: "http://10.0.0.1/t0k", event_types: ["*"]}]}]`)
	for _, c := range []struct {
		claim  string
		args   []string
		code   int
		stdout string // a part of it
		stderr []string
	}{
		{"help without a command", nil, 0, "Usage:", nil},
		{"help", []string{"help", "serve"}, 0, "--apply", nil},
		{"version", []string{"version"}, 0, "eventhook " + version + " (commit ", nil},
		{"an unknown command", []string{"srve"}, 2, "", []string{"srve"}},
		{"an unknown flag", []string{"serve", "--listn", ":1"}, 2, "", []string{"listn"}},
		{"an extra argument", []string{"version", "now"}, 2, "", []string{"now"}},
		{"an unknown action", []string{"migrate", "sideways"}, 2, "", []string{"sideways"}},
		{"down without --yes", []string{"migrate", "down"}, 2, "", []string{"--yes"}},
		{"health of a gateway that does not run", []string{"health", "--management-listen", "127.0.0.1:1"}, 1, "", []string{"no gateway listens at http://127.0.0.1:1/health/ready"}},
		{"health at an unknown port", []string{"health", "--management-listen", ":0"}, 2, "", []string{"the address that the gateway printed"}},
		{"mcp without a tenant", []string{"mcp", "--key", "ehk_x"}, 2, "", []string{"--tenant"}},
		{"--version", []string{"--version"}, 0, "eventhook dev", nil},
		{"apply without a file", []string{"apply"}, 2, "", []string{"-f"}},
		{"a valid configuration", []string{"check"}, 0, "is valid", nil},
		{"a valid file of tenants", []string{"check", "-f", clitest.WriteFile(t, "ok.yaml", testTenants)}, 0, "is valid", nil},
		{"the example", []string{"check", "--config", "../../configs/example.yaml"}, 0, "is valid", nil},
		{"an invalid configuration", []string{"check", "--config", bad}, 2, "", []string{"  listn: ", "  lease_seconds: "}},
		{"an invalid flag", []string{"check", "--listen", "here"}, 2, "", []string{"  listen: "}},
		{"an invalid file of tenants", []string{"check", "-f", badTenants}, 2, "", []string{"  tenants.yaml:1: tenants[0].slug: "}},
		{"a receiver at a private address", []string{"check", "-f", inside}, 2, "", []string{"  acme/in.url: the address of 10.0.0.1 is not public"}},
		{"a missing file", []string{"check", "-f", "nowhere.yaml"}, 2, "", []string{"nowhere.yaml"}},
		{"serve with an invalid configuration", []string{"serve", "--config", bad}, 2, "", []string{"  listn: "}},
		{"apply with invalid tenants", []string{"apply", "--database", "-f", badTenants}, 2, "", []string{"tenants[0].slug"}},
		{"--make-secrets without --apply", []string{"serve", "--make-secrets"}, 2, "", []string{"--apply"}},
		{"an unknown sample", []string{"send", "gitlob", "--secret", "s", "--url", "http://x"}, 2, "", []string{"eventhook send --help lists the providers"}},
		{"send without a URL", []string{"send", "github", "--secret", "s"}, 2, "", []string{"--url"}},
		{"send without a secret", []string{"send", "github", "--url", "http://x"}, 2, "", []string{"--secret"}},
		{"send to a malformed URL", []string{"send", "github", "--secret", "s", "--url", "http://a b"}, 2, "", []string{"URL"}},
		{"agent without a key", []string{"agent", "--server", "http://x", "--tenant", "acme"}, 2, "", []string{"EVENTHOOK_KEY is required"}},
		{"send with a missing body file", []string{"send", "github", "--secret", "s", "--url", "http://x", "--body-file", "nowhere"}, 2, "", []string{"nowhere"}},
	} {
		t.Run(c.claim, func(t *testing.T) {
			got := runCommand(c.args...)
			if got.Code != c.code || !strings.Contains(got.Stdout, c.stdout) || (got.Stderr == "") != (c.code == 0) {
				t.Errorf("%v: got %+v, want exit code %d, %q on stdout, and an error on stderr if it fails", c.args, got, c.code, c.stdout)
			}
			for _, part := range c.stderr {
				if !strings.Contains(got.Stderr, part) {
					t.Errorf("%v: stderr is %q, want %q in it", c.args, got.Stderr, part)
				}
			}
		})
	}
}

func TestUnknownVariableIsAnError(t *testing.T) {
	clitest.ClearEnvironment(t)
	t.Setenv("EVENTHOOK_LISTN", ":1")
	for _, args := range [][]string{{"serve"}, {"check"}, {"migrate"}, {"secrets", "status"}} {
		got := runCommand(args...)
		if got.Code != cli.ExitUsage || !strings.Contains(got.Stderr, "EVENTHOOK_LISTN: there is no such variable; the closest one is EVENTHOOK_LISTEN\n") {
			t.Errorf("%v: got %+v, want exit code 2 and the closest variable", args, got)
		}
	}
}

func TestMissingDatabase(t *testing.T) {
	const password = "hush_hush"
	for _, c := range []struct {
		claim, url string
		code       int
	}{
		{"no server", "postgres://u:" + password + "@127.0.0.1:1/d?connect_timeout=5", cli.ExitFailed},
		{"a URL that cannot be parsed", "postgres://u:" + password + "%zz@h/d", cli.ExitUsage},
		{"a URL of another database", "mysql://u:" + password + "@h/d", cli.ExitUsage},
	} {
		for _, args := range [][]string{{"serve"}, {"migrate"}, {"apply", "--database", "-f", clitest.WriteFile(t, "t.yaml", testTenants)}} {
			t.Run(c.claim+", "+args[0], func(t *testing.T) {
				configured(t, c.url)
				got := runCommand(args...)
				if got.Code != c.code || strings.Contains(got.Stdout+got.Stderr, password) || got.Stderr == "" {
					t.Errorf("got %+v, want exit code %d and an error without the password", got, c.code)
				}
			})
		}
	}
}

func TestMigrate(t *testing.T) {
	clitest.ClearEnvironment(t) // the database alone is enough
	t.Setenv("DATABASE_URL", pgtest.New(t))
	newest := runCommand("migrate", "version").Stdout
	if !strings.HasPrefix(newest, "schema version ") || strings.Contains(newest, "version 0") {
		t.Fatalf("a migrated database is at %q", newest)
	}
	for _, step := range []struct {
		args   []string
		code   int
		stdout string
	}{
		{[]string{"migrate"}, 0, newest},
		{[]string{"migrate", "down"}, cli.ExitUsage, ""},
		{[]string{"migrate", "version"}, 0, newest},
		{[]string{"migrate", "down", "--yes"}, 0, "schema version 0\n"},
		{[]string{"migrate", "version"}, 0, "schema version 0\n"},
		{[]string{"migrate", "up"}, 0, newest},
	} {
		if got := runCommand(step.args...); got.Code != step.code || got.Stdout != step.stdout {
			t.Errorf("%v: got %+v, want exit code %d and %q", step.args, got, step.code, step.stdout)
		}
	}
}
