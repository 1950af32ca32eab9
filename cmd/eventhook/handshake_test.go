package main

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/eventhook/eventhook/ingest"
	"github.com/eventhook/eventhook/internal/api"
	"github.com/eventhook/eventhook/internal/cli/clitest"
	"github.com/eventhook/eventhook/internal/keyset"
	"github.com/eventhook/eventhook/internal/pg"
	"github.com/eventhook/eventhook/internal/pgtest"
)

var (
	_ ingest.Learner        = (*pg.DB)(nil)
	_ ingest.Services       = (*pg.DB)(nil)
	_ ingest.RejectionStore = (*pg.DB)(nil)
	_ api.HandshakeStore    = (*pg.DB)(nil)
	_ ingest.SharedKeys     = (*keyset.Cache)(nil)
	_ ingest.Confirm        = outside{}.confirm
)

// post sends a webhook to a source and returns the status.
func (i *instance) post(source, body string, header ...string) int {
	i.t.Helper()
	r, err := http.NewRequestWithContext(i.t.Context(), http.MethodPost, i.url+ingest.Path("acme", source), strings.NewReader(body))
	if err != nil {
		i.t.Fatal(err)
	}
	for n := 0; n+1 < len(header); n += 2 {
		r.Header.Set(header[n], header[n+1])
	}
	resp, err := testClient.Do(r)
	if err != nil {
		i.t.Fatal(err)
	}
	_ = resp.Body.Close()
	return resp.StatusCode
}

// All instances use the secret that one of them received in a handshake. The secret
// survives a crash and another apply, and a second handshake cannot replace it.
func TestAllInstancesUseALearnedSecret(t *testing.T) {
	t.Parallel()
	const secret, body = "b537207f20cbfa02357cf448134da559", `{"events":[{"action":"changed"}]}`
	file := filepath.Join(t.TempDir(), "asana.yaml")
	if err := os.WriteFile(file, []byte("tenants:\n  - slug: acme\n    sources:\n      - {slug: asana, provider: asana}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	dsn := pgtest.New(t)
	start := func() *instance {
		return startCommand(t, []string{"DATABASE_URL=" + dsn, "EVENTHOOK_ADMIN_KEY=" + testAdminKey,
			"EVENTHOOK_ENCRYPTION_KEYS=" + testEncryptionKey}, "serve", "--apply", file)
	}
	first, second := start(), start()
	signed := func(i *instance, key string) int {
		return i.post("asana", body, "Content-Type", "application/json", "X-Hook-Signature", hexHMAC(key, []byte(body)))
	}
	if got := signed(second, secret); got != http.StatusUnauthorized {
		t.Errorf("before the handshake: answered %d, want 401", got)
	}
	if got := first.post("asana", "", "X-Hook-Secret", secret); got != http.StatusOK {
		t.Fatalf("the handshake was answered %d, want 200", got)
	}
	if got := signed(first, secret); got != http.StatusOK {
		t.Errorf("at the instance that received the secret: answered %d, want 200", got)
	}
	clitest.Eventually(t, "the other instance knows the secret", func() bool { return signed(second, secret) == http.StatusOK })
	for _, i := range []*instance{first, second} {
		if got := i.post("asana", "", "X-Hook-Secret", "another-secret-of-somebody"); got != http.StatusUnauthorized {
			t.Errorf("a second secret was answered %d, want 401", got)
		}
		if got := signed(i, "another-secret-of-somebody"); got != http.StatusUnauthorized {
			t.Errorf("a webhook signed with the second secret: answered %d, want 401", got)
		}
	}
	first.kill()
	if got := signed(start(), secret); got != http.StatusOK {
		t.Errorf("after a kill and another apply: answered %d, want 200", got)
	}
}
