package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/eventhook/eventhook/internal/cli/clitest"
	"github.com/eventhook/eventhook/internal/pgtest"
)

// Tests and backtests of routes with stored events have no effects.
func TestRouteTestAndBacktest(t *testing.T) {
	startInstance(t, pgtest.New(t)).at(t, testAdminKey)
	if out := runCommand("route", "create", "ours", "--source", "github", "--filter", `{"event.source":"github"}`, "--task", "note"); out.Code != 0 {
		t.Fatalf("a route: %+v", out)
	}
	for _, id := range []string{"one", "two", "three"} {
		if out := runCommand("send", "github", "--secret", testSecret, "--id", id); out.Code != 0 {
			t.Fatalf("send: %+v", out)
		}
	}
	// The filters contain no spaces, because each command is split at spaces.
	const never = `{"body.ref":{"$startsWith":"refs/tags/"}}`
	for _, step := range []struct{ command, prints string }{
		{"event get latest --wait", "delivered ours task success"},
		{"route create tags --source github --filter " + never + " --task release", "tags"},
		{"route test --event latest", "pushes matches, for task tags does not match: body.ref is refs/heads/main wanted $startsWith"},
		{"route test pushes --event latest", "pushes matches, for task task gets refs/heads/main"},
		{"route test tags --event latest", "tags does not match"},
		{"route test none --event latest", "! no route none"},
		{"route test --event 00000000-0000-7000-8000-000000000000", "! 404"},
		{"route backtest tags --source github", "tested 3 matched 0 fail 0 not matched 3 Not matched 3 × body.ref is …, wanted"},
		{"route backtest tags --source github --filter {\"event.source\":\"github\"} --samples 1", "tested 3 matched 3 Matched task gets refs/heads/main"},
		{"route backtest --source github --last 2 --promise-key body.none", "tested 2 fail 2 Would fail 2 × body.none promise would fail: body.none"},
		{"route backtest --source github --task x --since 1ns", "No events of the source"},
		{"route backtest --source nowhere --task x --filter-expression 1+", "! 422 --filter-expression --source"},
		{"event list", "delivered delivered delivered"},
	} {
		got := runCommand(strings.Fields(step.command)...)
		words, fails := strings.CutPrefix(step.prints, "! ")
		if (got.Code != 0) != fails {
			t.Fatalf("eventhook %s: got %+v, want failure: %v", step.command, got, fails)
		}
		t.Log("eventhook", step.command)
		clitest.WantInOrder(t, got.Stdout+got.Stderr, strings.Fields(words)...)
	}
	var only struct{ Routes []struct{ Name string } }
	raw := runCommand("route", "test", "tags", "--event", "latest", "-o", "json")
	if err := json.Unmarshal([]byte(raw.Stdout), &only); err != nil || len(only.Routes) != 1 || only.Routes[0].Name != "tags" {
		t.Errorf("in JSON it is %+v, %v, want the one route", raw, err)
	}
}
