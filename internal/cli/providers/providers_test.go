package providers

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/eventhook/eventhook/internal/cli"
	"github.com/eventhook/eventhook/internal/cli/clitest"
	"github.com/eventhook/eventhook/verify"
)

func TestProvidersCommand(t *testing.T) {
	clitest.ClearEnvironment(t)
	table := runCommand("providers")
	if rows := strings.Count(table.Stdout, "\n"); table.Code != 0 || rows != len(verify.Presets())+1 {
		t.Errorf("got %d rows, want one for each of %d presets and a title", rows, len(verify.Presets()))
	}
	if got := runCommand("providers", "gitlab"); got.Code != 0 || strings.Count(got.Stdout, "\n") != 3 {
		t.Errorf("one provider: got %+v, want its two schemes", got)
	}
	var list []map[string]any
	got := runCommand("providers", "slack", "-o", "json")
	if err := json.Unmarshal([]byte(got.Stdout), &list); err != nil || len(list) != 1 || list[0]["handshake"] != "slack" {
		t.Errorf("as JSON: got %+v, want Slack with its handshake (%v)", got, err)
	}
	page, err := os.ReadFile("../../../docs/providers.md")
	if got := runCommand("providers", "-o", "markdown"); err != nil || got.Stdout != string(page) {
		t.Errorf("as Markdown it is not docs/providers.md (%v); run \"make docs\"", err)
	}
	if got := runCommand("providers", "slack", "-o", "markdown"); !strings.HasPrefix(got.Stdout, "### slack\n") || !strings.Contains(string(page), got.Stdout) {
		t.Errorf("one as Markdown: got %+v, want a part of the page", got)
	}
	for _, args := range [][]string{{"gitlob"}, {"-o", "yaml"}, {"a", "b"}} {
		if got := runCommand(append([]string{"providers"}, args...)...); got.Code != cli.ExitUsage || got.Stderr == "" {
			t.Errorf("%v: got %+v, want exit code %d and a reason", args, got, cli.ExitUsage)
		}
	}
}
