package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/eventhook/eventhook/client"
	"github.com/eventhook/eventhook/internal/cli/clitest"
	"github.com/eventhook/eventhook/internal/pgtest"
)

// TestEventsAreFoundSearchedAndRepeated runs the story of docs/events.md: one trace from
// the webhook to everything that it leads to, also when the event is processed again.
func TestEventsAreFoundSearchedAndRepeated(t *testing.T) {
	startInstance(t, pgtest.New(t)).at(t, testAdminKey)
	run := func(arg ...string) clitest.Output {
		t.Helper()
		got := runCommand(arg...)
		if got.Code != 0 {
			t.Fatalf("eventhook %s: got %+v", strings.Join(arg, " "), got)
		}
		return got
	}
	event := func(id string) (e client.EventDetail) {
		t.Helper()
		if err := json.Unmarshal([]byte(run("event", "get", id, "--wait", "-o", "json").Stdout), &e); err != nil {
			t.Fatal(err)
		}
		return e
	}
	run("route", "create", "publish", "--source", "github", "--publish", "pushed.branch")
	run("send", "github", "--secret", testSecret, "--id", "one")
	first := event("latest")
	run("event", "reprocess", "--again", first.ID)
	second := event("latest")
	if second.ReprocessedFrom == nil || *second.ReprocessedFrom != first.ID || second.TraceID != first.TraceID {
		t.Errorf("the new event is %+v, want it to come from %s with trace %s", second, first.ID, first.TraceID)
	}
	if first.Outcome != "in_progress" || len(second.Actions) != len(first.Actions) {
		t.Errorf("outcome %s and %d actions again, want in_progress for the tasks, and %d", first.Outcome, len(second.Actions), len(first.Actions))
	}
	for _, step := range []struct {
		args   []string
		prints string
	}{
		{[]string{"event", "list", "--trace-id", first.TraceID}, "pushed.branch published push delivered pushed.branch published push delivered"},
		{[]string{"event", "list", "--trace", first.TraceID, "--type", "pushed.*"}, "pushed.branch published pushed.branch published"},
		{[]string{"event", "list", "--type", "pushed.*"}, "pushed.branch pushed.branch"},
		{[]string{"event", "list", "--correlation", first.ID}, "pushed.branch published"},
		{[]string{"event", "list", "--request-id", "none"}, "No items."},
		{[]string{"event", "search", "--since", "1h", "--filter", `{"body.ref":"refs/heads/main","event.type":"push"}`}, second.ID + " " + first.ID},
		{[]string{"event", "search", "--since", "1h", "--filter", `{"body.ref":"refs/heads/none"}`}, "No items."},
		{[]string{"event", "get", second.ID}, "status delivered outcome in_progress reprocessed from " + first.ID + " trace " + first.TraceID + " Actions: pushes task success pending"},
		{[]string{"event", "get", *first.Actions[1].PublishedEventID}, "status published outcome succeeded trace " + first.TraceID},
	} {
		got := run(step.args...)
		clitest.WantInOrder(t, got.Stdout+got.Stderr, strings.Fields(step.prints)...)
	}
	for _, c := range []struct{ args, prints string }{
		{"event get 123", `"123": is not a UUID`},
		{"event reprocess --again " + first.ID + " x", `"x": is not a UUID`},
		{"event list --trace zzz", "--trace-id: expected string to be a W3C trace id of 32 hexadecimal digits"},
		{"event list --status gone", "--status: expected value to be one of"},
		{"event list --type p*sh", `--type: "p*sh" must be an exact type`},
		{"event search --since 1h --filter nojson", "--filter must be a JSON object"},
	} {
		if got := runCommand(strings.Fields(c.args)...); got.Code != 2 || !strings.Contains(got.Stderr, c.prints) {
			t.Errorf("eventhook %s: got %+v, want exit code 2 and %q", c.args, got, c.prints)
		}
	}
}

// TestTheCommandsOfTheEventsPageExist checks the flags of each command of docs/events.md.
func TestTheCommandsOfTheEventsPageExist(t *testing.T) {
	startInstance(t, pgtest.New(t)).at(t, testAdminKey)
	mustRun(t, "send github --secret "+testSecret+" --id one")
	for _, heading := range []string{"## Find events", "## Search in header and body", "## Process events again", "## One trace"} {
		for _, command := range pageCommands(t, "docs/events.md", heading) {
			if command == "event reprocess --again latest" {
				mustRun(t, "event get latest --wait")
			}
			mustRun(t, command)
		}
	}
}
