package main

import (
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/eventhook/eventhook/configs"
	"github.com/eventhook/eventhook/internal/cli"
	"github.com/eventhook/eventhook/internal/cli/clitest"
	"github.com/eventhook/eventhook/internal/pgtest"
	"github.com/eventhook/eventhook/internal/seal"
)

func keyIDs(t *testing.T, keys ...string) []string {
	t.Helper()
	ring, err := seal.New(keys...)
	if err != nil {
		t.Fatal(err)
	}
	return ring.KeyIDs()
}

func TestSecretsRotate(t *testing.T) {
	dsn := pgtest.New(t)
	configured(t, dsn)
	fresh := seal.NewKey()
	ids := keyIDs(t, fresh, testEncryptionKey)
	keys := func(list ...string) { t.Setenv("EVENTHOOK_ENCRYPTION_KEYS", strings.Join(list, ",")) }
	file := clitest.WriteFile(t, "t.yaml", exportedTenants)
	if got := runCommand("apply", "--database", "-f", file); got.Code != 0 {
		t.Fatal(got)
	}
	said := "Secrets are bound to their rows"
	status := func(claim string, lines ...string) {
		t.Helper()
		got := runCommand("secrets", "status")
		var seen []string
		for line := range strings.Lines(got.Stdout) {
			seen = append(seen, strings.Join(strings.Fields(line), " "))
		}
		if n := len(seen) - 1; n >= 0 && strings.HasPrefix(seen[n]+"\n", said) {
			seen = seen[:n]
		} else {
			t.Errorf("%s: the last line of %q does not contain %q", claim, seen, said)
		}
		if want := append([]string{"KEY VALUES IN BOUND STATE"}, lines...); got.Code != 0 || strings.Join(seen, "\n") != strings.Join(want, "\n") {
			t.Errorf("%s: got %q, want %q", claim, seen, want)
		}
	}
	status("one key", ids[1]+" 3 source.verifier yes newest: seals")
	keys(testEncryptionKey, fresh)
	status("the next key is configured", ids[1]+" 3 source.verifier yes newest: seals", ids[0]+" 0 configured")
	keys(fresh, testEncryptionKey)
	said = "Secrets are bound to their rows; unbound ones are refused. The canary needs the key " + ids[1]
	status("the next key is the newest", ids[0]+" 0 newest: seals", ids[1]+" 3 source.verifier yes configured")
	got := wantRun(t, "rotate", 0, "re-sealed 3 values with the key "+ids[0]+"\nthe key "+ids[1]+" is no longer needed and may be removed when no instance seals with it\n", "secrets", "rotate")
	if got.Stderr != "re-sealed 3 of 3 …\n" {
		t.Errorf("progress is %q", got.Stderr)
	}
	wantRun(t, "a second rotation", 0, "re-sealed 0 values with the key "+ids[0]+"\nthe key "+ids[1]+" is no longer needed and may be removed when no instance seals with it\n", "secrets", "rotate")
	keys(fresh)
	said = "Secrets are bound to their rows; unbound ones are refused.\n"
	status("only the new key is configured", ids[0]+" 3 source.verifier yes newest: seals")
	wantRun(t, "the configuration has not changed", 0, noDrift, "apply", "--database", "--check", "-f", file)
	keys(testEncryptionKey)
	said = "The encryption keys of this instance do not fit this database"
	status("only the old key is configured", ids[1]+" 0 newest: seals", ids[0]+" 3 source.verifier yes not configured: cannot be opened")
}

func TestSecretsThatCannotBeOpenedAreReported(t *testing.T) {
	dsn := pgtest.New(t)
	configured(t, dsn)
	if got := runCommand("apply", "--database", "-f", clitest.WriteFile(t, "t.yaml", exportedTenants)); got.Code != 0 {
		t.Fatal(got)
	}
	lost, err := seal.New(seal.NewKey())
	if err != nil {
		t.Fatal(err)
	}
	sealed, err := lost.Seal("x", "place")
	if err != nil {
		t.Fatal(err)
	}
	var id string
	err = connect(t, dsn).QueryRow(t.Context(), `UPDATE eventhook.source SET verifier = $1 WHERE slug = 'crm' RETURNING id`, sealed).Scan(&id)
	if err != nil {
		t.Fatal(err)
	}
	fresh := seal.NewKey()
	ids := keyIDs(t, fresh, testEncryptionKey)
	t.Setenv("EVENTHOOK_ENCRYPTION_KEYS", fresh+","+testEncryptionKey)
	got := wantRun(t, "rotate", cli.ExitFailed, "re-sealed 2 values with the key "+ids[0]+"\nthe key "+ids[1]+" is no longer needed and may be removed when no instance seals with it\n", "secrets", "rotate")
	for _, part := range []string{"1 values cannot be opened", "source.verifier " + id + ": sealed with a key that is not configured"} {
		if !strings.Contains(got.Stderr, part) {
			t.Errorf("stderr is %q, want %q in it", got.Stderr, part)
		}
	}
	status := runCommand("secrets", "status")
	if !regexp.MustCompile(`(?m)^` + lost.KeyIDs()[0] + ` +1 +source.verifier +yes +not configured`).MatchString(status.Stdout) {
		t.Errorf("the status is\n%s\nwant the lost key %s in it", status.Stdout, lost.KeyIDs()[0])
	}
}

// Commands that seal secrets fail without an encryption key: there is no default key.
func TestCommandsRequireAnEncryptionKey(t *testing.T) {
	configured(t, pgtest.New(t))
	t.Setenv("EVENTHOOK_ENCRYPTION_KEYS", "")
	file := clitest.WriteFile(t, "t.yaml", testTenants)
	for _, args := range [][]string{{"serve", "--listen", "127.0.0.1:0", "--management-listen", "127.0.0.1:0"}, {"apply", "--database", "-f", file}, {"export", "--database"}, {"secrets", "status"}, {"secrets", "rotate"}, {"secrets", "accept-keys", "--yes"}} {
		if got := runCommand(args...); got.Code != cli.ExitUsage || !strings.Contains(got.Stderr, "encryption_keys: is required") || got.Stdout != "" {
			t.Errorf("%v: got %+v, want a refusal that names encryption_keys", args, got)
		}
	}
}

// The file of encryption keys may have several lines, so that a generated key can be
// rotated.
func TestEncryptionKeyFileHasOneKeyPerLine(t *testing.T) {
	c := configs.Default()
	c.DataDir = t.TempDir()
	older, err := openKeys(c)
	if err != nil {
		t.Fatal(err)
	}
	sealed, err := older.ring.Seal("text", "place")
	if err != nil {
		t.Fatal(err)
	}
	fresh := seal.NewKey()
	file := filepath.Join(c.DataDir, "encryption.key")
	kept, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, append([]byte(fresh+"\n"), kept...), 0o600); err != nil {
		t.Fatal(err)
	}
	both, err := openKeys(c)
	if err != nil {
		t.Fatal(err)
	}
	if text, err := both.ring.Open(sealed, "place"); text != "text" || err != nil || both.ring.KeyIDs()[0] != keyIDs(t, fresh)[0] {
		t.Errorf("got %q, %v with the keys %v, want the old text and the new key first", text, err, both.ring.KeyIDs())
	}
}

// A gateway that has the new key and still seals with the old one continues to run
// during a rotation, as docs/secrets.md describes.
func TestGatewayRunsDuringSecretRotation(t *testing.T) {
	dsn := pgtest.New(t)
	configured(t, dsn)
	fresh := seal.NewKey()
	gateway := startInstance(t, dsn, "EVENTHOOK_ENCRYPTION_KEYS="+testEncryptionKey+","+fresh)
	f := startFlood(t, gateway)
	answered := func(n int) {
		clitest.Eventually(t, "webhooks are answered", func() bool { return f.count(http.StatusOK) >= n })
	}
	answered(50)
	t.Setenv("EVENTHOOK_ENCRYPTION_KEYS", fresh+","+testEncryptionKey)
	if got := runCommand("secrets", "rotate"); got.Code != 0 || !strings.HasPrefix(got.Stdout, "re-sealed 1 values") {
		t.Errorf("got %+v, want the source's secret re-sealed", got)
	}
	answered(f.count(http.StatusOK) + 200)
	f.stop()
	for status, n := range f.statuses {
		if status != http.StatusOK {
			t.Errorf("%d webhooks were answered %d", n, status)
		}
	}
	gateway.stop()
}

// An instance with a wrong key is not ready, reports the reason, and does not change
// the canary.
func TestInstanceWithAWrongKeyIsNotReady(t *testing.T) {
	dsn := pgtest.New(t)
	configured(t, dsn)
	file := clitest.WriteFile(t, "t.yaml", testTenants)
	if got := runCommand("apply", "--database", "-f", file); got.Code != 0 {
		t.Fatal(got)
	}
	ready := func(i *instance) string { return i.ready() }
	start := func(key string) *instance {
		return startCommand(t, []string{"DATABASE_URL=" + dsn, "EVENTHOOK_ADMIN_KEY=" + testAdminKey, "EVENTHOOK_ENCRYPTION_KEYS=" + key}, "serve")
	}
	fresh := seal.NewKey()
	wrong := start(fresh)
	if !strings.Contains(wrong.logs.String(), "this instance is not ready") {
		t.Errorf("it logs %s, want the reason", wrong.logs)
	}
	if got := ready(wrong); !strings.HasPrefix(got, "503 ") || !strings.Contains(got, "do not fit this database") {
		t.Errorf("with a wrong key it answers %s, want 503 and the reason", got)
	}
	wantNotReady(t, wrong)
	right := start(testEncryptionKey)
	if got := ready(right); !strings.HasPrefix(got, "200 ") {
		t.Errorf("with the right key it answers %s, want 200", got)
	}
	t.Setenv("EVENTHOOK_ENCRYPTION_KEYS", fresh)
	for _, args := range [][]string{{"apply", "--database", "-f", file}, {"apply", "--database", "--check", "-f", file}, {"export", "--database"}, {"secrets", "rotate"}} {
		if got := runCommand(args...); got.Code != cli.ExitFailed || !strings.Contains(got.Stderr, "do not fit this database") {
			t.Errorf("%v: got %+v, want a refusal with the reason", args, got)
		}
	}
	if got := runCommand("secrets", "accept-keys"); got.Code != cli.ExitUsage {
		t.Errorf("accept-keys without --yes: got %+v", got)
	}
	wantRun(t, "the former keys are lost", 0, "the database accepts the key "+keyIDs(t, fresh)[0]+"\n", "secrets", "accept-keys", "--yes")
	if got := ready(wrong) + ready(right); !strings.HasPrefix(got, "200 ") || !strings.Contains(got, "503 ") {
		t.Errorf("after accept-keys they answer %s, want only the new key to be ready", got)
	}
	wrong.stop()
	right.stop()
}
