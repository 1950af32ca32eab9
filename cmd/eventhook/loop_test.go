package main

import (
	"net/http"
	"testing"

	"github.com/eventhook/eventhook/internal/cli/clitest"
	"github.com/eventhook/eventhook/internal/pgtest"
)

// relayTenants has a source without verification and without routes.
const relayTenants = `
tenants:
  - slug: acme
    sources:
      - {slug: relay, verifier: {type: none}}
`

// Two gateways send each other every webhook: one with an http target, the other one with
// a published event and a subscription. The webhook makes 8 hops.
func TestALoopOfTwoGatewaysEnds(t *testing.T) {
	t.Parallel()
	start := func(dsn string) *instance {
		return startCommand(t, []string{"DATABASE_URL=" + dsn, "EVENTHOOK_ADMIN_KEY=" + testAdminKey, "EVENTHOOK_ENCRYPTION_KEYS=" + testEncryptionKey,
			"EVENTHOOK_OUTBOUND_ALLOWED_CIDRS=127.0.0.0/8"}, "serve", "--apply", clitest.WriteFile(t, "tenants.yaml", relayTenants))
	}
	dsns := []string{pgtest.New(t), pgtest.New(t)}
	first, second := start(dsns[0]), start(dsns[1])
	const source = "/api/tenants/acme/eventhook/in/relay"
	create := func(i *instance, path string, body any) {
		t.Helper()
		if status := i.call(http.MethodPost, path, body, nil); status != http.StatusCreated {
			t.Fatalf("%s was answered %d, want 201", path, status)
		}
	}
	create(first, "/sources/relay/routes", map[string]any{"name": "on", "targets": []any{
		map[string]any{"type": "http", "url": second.url + source, "retry": map[string]any{"max_retries": 0}}}})
	create(second, "/subscriptions", map[string]any{"name": "back", "url": first.url + source, "event_types": []string{"relayed"}, "retry": map[string]any{"max_retries": 0}})
	create(second, "/sources/relay/routes", map[string]any{"name": "on", "targets": []any{map[string]any{"type": "publish", "event_type": "relayed"}}})

	response, err := testClient.Post(first.url+source, "application/json", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	a, b := connect(t, dsns[0]), connect(t, dsns[1])
	clitest.Eventually(t, "a delivery is answered 508 and dead", func() bool {
		return count(t, a, `SELECT count(*) FROM eventhook.delivery WHERE status = 'dead'`) == 1
	})
	const webhooks = `SELECT count(*) FROM eventhook.event WHERE origin = 'source'`
	if got := []int{count(t, a, webhooks), count(t, b, webhooks)}; got[0] != 5 || got[1] != 4 {
		t.Errorf("the gateways stored %v webhooks, want 5 and 4", got)
	}
	clitest.Eventually(t, "the other gateway lists the refused request", func() bool {
		return count(t, b, `SELECT count(*) FROM eventhook.rejection WHERE outcome = 'loop'`) == 1
	})
}
