package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/eventhook/eventhook/internal/cli/clitest"
	"github.com/eventhook/eventhook/internal/cli/send"
	"github.com/eventhook/eventhook/internal/pgtest"
)

// latest is the newest event that a source received, although the event that its
// route published is newer.
func TestLatestIsTheNewestEventOfASource(t *testing.T) {
	startInstance(t, pgtest.New(t)).at(t, testAdminKey)
	run := func(arg ...string) clitest.Output {
		got := runCommand(arg...)
		if got.Code != 0 {
			t.Fatalf("eventhook %s: got %+v", strings.Join(arg, " "), got)
		}
		return got
	}
	run("route", "create", "publish", "--source", "github", "--publish", "pushed")
	run("source", "create", "crm", "--verifier", `{"type":"hmac","header":"X-Sig"}`, "--secret", "one")
	var sent send.Answer
	if err := json.Unmarshal([]byte(run("send", "github", "--secret", testSecret, "--id", "one", "-o", "json").Stdout), &sent); err != nil {
		t.Fatal(err)
	}
	run("event", "get", sent.EventID, "--wait")
	var newest struct{ Items []struct{ ID string } }
	if err := json.Unmarshal([]byte(run("event", "list", "--limit", "1", "-o", "json").Stdout), &newest); err != nil || len(newest.Items) != 1 {
		t.Fatalf("the newest: got %+v, %v", newest, err)
	}
	published := newest.Items[0].ID
	for _, step := range []struct{ command, prints string }{
		{"event get " + published, "pushed origin published by a route"},
		{"event get latest --wait", sent.EventID + " origin source github, verified delivered"},
		{"event payload latest", "refs/heads/main"},
		{"route test --event latest", "pushes matches"},
		{"source test github --event latest", "event type push pushes matches"},
		{"source test github --event " + sent.EventID, "event type push pushes matches"},
		{"source test github --event " + published, "! origin " + published + " published by a route source github"},
		{"source test crm --event " + sent.EventID, "! origin " + sent.EventID + " source github source crm"},
		{"source test crm --event latest", "! no events of crm yet"},
		{"event reprocess latest", "No events were reprocessed"},
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
