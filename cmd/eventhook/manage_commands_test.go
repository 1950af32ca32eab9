package main

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/eventhook/eventhook/internal/cli"
	"github.com/eventhook/eventhook/internal/cli/clitest"
	"github.com/eventhook/eventhook/internal/cli/input"
	"github.com/eventhook/eventhook/internal/cli/send"
	"github.com/eventhook/eventhook/internal/pgtest"
)

// at makes commands call the gateway with a key for the tenant acme.
func (i *instance) at(t *testing.T, key string) {
	t.Helper()
	clitest.ClearEnvironment(t)
	t.Setenv(input.ServerVariable, i.url)
	t.Setenv(input.KeyVariable, key)
	t.Setenv(input.TenantVariable, "acme")
}

// Each step lists words that the command prints, in this order. "!" means that the
// command fails.
func TestCommandsManageAllObjects(t *testing.T) {
	startInstance(t, pgtest.New(t)).at(t, testAdminKey)
	for _, step := range []struct{ command, prints string }{
		{"tenant list", "SLUG STATUS acme active"},
		{"tenant create other --name Other --max-events-per-day 5", "other active 0 of 5 EVENTHOOK_TENANT=other"},
		{"tenant create other", "! 409 other"},
		{"tenant update other --max-events-per-day none", "0 of unlimited"},
		{"tenant suspend other", "suspended"},
		{"tenant activate other", "active"},
		{"tenant get other", "Other active"},

		{"source create crm --verifier {\"type\":\"hmac\",\"header\":\"X-Sig\"} --secret one --event-type-path body.kind", "crm hmac body.kind /in/crm route create"},
		{"source create crm --provider stripe --secret s", "! 409 crm"},
		{"source create bad --provider nonsense --burst -1", "! --burst --provider"},
		{"source url crm", "/api/tenants/acme/eventhook/in/crm"},
		{"source update crm --name Customers --enabled=false", "Customers no"},
		{"source list", "crm Customers hmac no github github yes"},
		{"source providers --limit 1000", "github slack stripe"},
		{"source handshake crm", "none"},
		{"source rejections crm", "No items."},

		{"route create first --source crm --type a.* --task build", "first a.* build"},
		{"route create second --source crm --task notify --priority 5", "second 5 all notify"},
		{"route create second --source crm --task notify", "! 409 second"},
		{"route create broken --source crm --task x --filter-expression 1+", "! --filter-expression"},
		{"route list --source crm", "second first"},
		{"route reorder first second --source crm", "first 20 second 10"},
		{"route reorder second=99 --source crm", "second 99"},
		{"route list --source crm", "second 99 first 20"},
		{"route disable second --source crm", "second no"},
		{"route enable second --source crm", "second yes"},
		{"route update second --source crm --promise-key body.id", "promise"},
		{"route get second --source crm", "second promise"},
		{"route update second --source crm --publish order.made", "order.made"},
		{"route update second --source crm --http https://internal.example/hook", "http"},
		{"route list --source crm", "http https://internal.example/hook task build"},
		{"route delete second --source crm --yes", "deleted"},
		{"route get second --source crm", "! no route second"},
		{"source test crm -H X-Sig:00", "no: encoding first does not match"},
		{"source delete crm --yes", "! 409 routes"},
		{"source delete crm --cascade --yes", "deleted"},
		{"source get crm", "! 404"},
		{"source create keyless --verifier {\"type\":\"none\"} --require-idempotency-key", "keyless warning idempotency_key_paths"},

		{"event-type put payment.made --description Money", "payment.made Money tenant"},
		{"event-type list", "payment.made"},
		{"event-type get payment.made", "Money"},
		{"event-type delete payment.made --yes", "deleted"},
		{"event-type get payment.made", "! 404"},

		{"event get latest", "! no events of a source yet"},
		{"event get 1", "! 400"},
		{"audit list --limit 3", "acme event_type.deleted admin key There are more items --cursor"},
		{"audit list --action source.deleted", "crm"},
		{"tenant close other", "! --yes"},
		{"tenant purge other --yes", "! close it before"},
		{"tenant close other --yes", "closed"},
		{"tenant purge other", "! --yes"},
		{"tenant purge other --yes", "purge"},
		{"tenant activate other", "! 409"},
	} {
		got := runCommand(strings.Fields(step.command)...)
		words, fails := strings.CutPrefix(step.prints, "! ")
		if (got.Code != 0) != fails {
			t.Fatalf("eventhook %s: got %+v, want failure: %v", step.command, got, fails)
		}
		t.Log("eventhook", step.command)
		clitest.WantInOrder(t, got.Stdout+got.Stderr, strings.Fields(words)...)
	}
}

func TestKeyIsShownOnceAndCanBeRevoked(t *testing.T) {
	gateway := startInstance(t, pgtest.New(t))
	gateway.at(t, testAdminKey)
	created := runCommand("key", "create", "ci", "--scope", "read", "-o", "json")
	var key struct{ ID, Key string }
	if err := json.Unmarshal([]byte(created.Stdout), &key); err != nil || key.Key == "" {
		t.Fatalf("got %+v, %v, want a key", created, err)
	}
	if got := runCommand("key", "list"); got.Code != 0 || !strings.Contains(got.Stdout, "ci") || strings.Contains(got.Stdout, key.Key) {
		t.Errorf("the list is %+v, want the name of the key and not the key", got)
	}
	for _, step := range []struct {
		command string
		code    int
	}{{"source list", 0}, {"source delete github --yes", cli.ExitFailed}, {"tenant list", cli.ExitFailed}, {"source list --tenant other", cli.ExitFailed}} {
		if got := runCommand(append(strings.Fields(step.command), "--key", key.Key)...); got.Code != step.code || strings.Contains(got.Stdout+got.Stderr, key.Key) {
			t.Errorf("eventhook %s: got %+v, want exit code %d and no key", step.command, got, step.code)
		}
	}
	if got := runCommand("key", "delete", key.ID, "--yes"); got.Code != 0 {
		t.Fatal(got)
	}
	if got := runCommand("source", "list", "--key", key.Key); got.Code != cli.ExitFailed || !strings.Contains(got.Stderr, "401") {
		t.Errorf("with the revoked key: got %+v, want 401", got)
	}
}

func TestEventGetShowsWhatTheScopesAllow(t *testing.T) {
	gateway := startInstance(t, pgtest.New(t))
	gateway.at(t, testAdminKey)
	sent := runCommand("send", "github", "--secret", testSecret, "--id", "one", "-o", "json")
	var answer send.Answer
	if err := json.Unmarshal([]byte(sent.Stdout), &answer); err != nil || answer.EventID == "" {
		t.Fatalf("got %+v, %v, want an event", sent, err)
	}
	whole := runCommand("event", "get", "latest", "--wait", "--body")
	clitest.WantInOrder(t, whole.Stdout, answer.EventID, "push", "verified", "delivered", "X-Github-Event: push", "refs/heads/main", "pushes  task", "success", "pushes matches, for task")
	payload := runCommand("event", "payload", answer.EventID)
	if want := gateway.payload(answer.EventID); payload.Stdout != want {
		t.Errorf("the payload is %q, want %q", payload.Stdout, want)
	}
	raw := runCommand("event", "get", answer.EventID, "-o", "json")
	var got, want map[string]any
	if gateway.call(http.MethodGet, "/events/"+answer.EventID, nil, &want) != http.StatusOK || json.Unmarshal([]byte(raw.Stdout), &got) != nil || len(got) != len(want) {
		t.Errorf("in JSON it is %s, want the API's answer %v", raw.Stdout, want)
	}
	created := runCommand("key", "create", "reader", "-o", "json")
	var key struct{ Key string }
	if err := json.Unmarshal([]byte(created.Stdout), &key); err != nil {
		t.Fatal(err)
	}
	part := runCommand("event", "get", answer.EventID, "--key", key.Key)
	if part.Code != 0 || !strings.Contains(part.Stdout, "pushes  task") || strings.Contains(part.Stdout, "matches") {
		t.Errorf("with a key of scope read: got %+v, want the actions without the routes", part)
	}
	again := runCommand("event", "reprocess", answer.EventID)
	if again.Code != 0 || !strings.Contains(again.Stdout, "No events were reprocessed") {
		t.Errorf("a delivered event: got %+v, want no change", again)
	}
}
