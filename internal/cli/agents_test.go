package cli

import (
	"strings"
	"testing"

	"github.com/eventhook/eventhook/internal/cli/clitest"
)

const anAgent = `{"id":"` + someID + `","name":"berlin","labels":["env:prod","region:eu"],"status":"online","last_seen_at":"2026-01-01T00:00:00Z",
 "version":"1.2","held":3,"created_at":"2026-01-01T00:00:00Z","updated_at":"2026-01-02T00:00:00Z"`

func TestAgentOutput(t *testing.T) {
	const list = `{"items":[` + anAgent + `}],"next_cursor":null}`
	for _, c := range []struct {
		claim, answer, command string
		prints                 string
	}{
		{"list agents", list, "agents list", "NAME STATUS berlin online env:prod, region:eu 3 2026-01-01T00:00:00Z 1.2 " + someID},
		{"create an agent", anAgent + `,"key":"ehk_new"}`, "agents create berlin --label env:prod --label region:eu",
			"name berlin labels env:prod, region:eu not shown again EVENTHOOK_TENANT=shop EVENTHOOK_KEY=ehk_new"},
		{"get an agent", anAgent + `}`, "agents get " + someID, "name berlin status online last seen 2026-01-01T00:00:00Z version 1.2 held 3 deliveries"},
		{"an agent without a claim", strings.NewReplacer(`"2026-01-01T00:00:00Z",
 "version":"1.2"`, `null,"version":null`).Replace(anAgent) + `}`, "agents get " + someID, "name berlin last seen never held"},
		{"update an agent", anAgent + `}`, "agents update " + someID + " --label region:eu", "name berlin"},
		{"delete an agent", ``, "agents delete " + someID + " --yes", "agent " + someID + " is deleted"},
		{"rotate a key", `{"key":"ehk_new","previous_expires_at":"2026-01-02T00:00:00Z"}`, "agents rotate-key " + someID + " --grace 1h",
			"valid until 2026-01-02T00:00:00Z EVENTHOOK_KEY=ehk_new"},
		{"rotate a key at once", `{"key":"ehk_new","previous_expires_at":null}`, "agents rotate-key " + someID, "not valid any more EVENTHOOK_KEY=ehk_new"},
	} {
		t.Run(c.claim, func(t *testing.T) {
			startFakeGateway(t, 200, c.answer)
			got := runCommand(strings.Fields(c.command)...)
			if got.Code != 0 || got.Stderr != "" {
				t.Fatalf("got %+v, want exit code 0", got)
			}
			clitest.WantInOrder(t, got.Stdout, strings.Fields(c.prints)...)
		})
	}
}

func TestAnAgentIsFoundByItsName(t *testing.T) {
	startFakeGateway(t, 200, `{"items":[`+anAgent+`}],"next_cursor":null}`)
	got := runCommand("agents", "get", "paris")
	if got.Code != ExitFailed || !strings.Contains(got.Stderr, `there is no agent "paris"`) {
		t.Errorf("an unknown name: got %+v, want an error that names it", got)
	}
}
