package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/eventhook/eventhook/internal/pgtest"
)

func TestABacktestIsAskedForAsAProposedRoute(t *testing.T) {
	asFile := writeFile(t, "route.json", `{"name": "large", "priority": 9007199254740993, "targets": [{"type": "task", "task_kind": "a"}]}`)
	type object = map[string]any
	build := []any{object{"type": "task", "task_kind": "build"}}
	for _, c := range []struct {
		claim string
		args  []string
		want  object
	}{
		{"of flags", []string{"--filter", `{"body.n":{"$gte":1}}`, "--task", "build"},
			object{"source": "s", "route": object{"name": "proposed", "filter": object{"body.n": object{"$gte": 1.0}}, "targets": build}}},
		{"of a file, and flags over it", []string{"-f", asFile, "--task", "build", "--last", "20", "--samples", "0", "--since", "2026-01-01T00:00:00Z"},
			object{"source": "s", "last": 20.0, "samples": 0.0, "since": "2026-01-01T00:00:00Z", "route": object{"name": "large", "priority": 9007199254740993.0, "targets": build}}},
	} {
		t.Run(c.claim, func(t *testing.T) {
			got := pretend(t, 200, `{}`)
			if out := runCommand(append([]string{"route", "backtest", "--source", "s"}, c.args...)...); out.code != 0 {
				t.Fatalf("got %+v, want success", out)
			}
			want := []asked{{"POST", inShop + "/routes/backtest", c.want}}
			if diff := cmp.Diff(want, *got, cmp.AllowUnexported(asked{})); diff != "" {
				t.Errorf("asked (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTryingRoutesOutNeedsToKnowWhich(t *testing.T) {
	for claim, c := range map[string]struct {
		args []string
		says string
	}{
		"no event":          {[]string{"route", "test"}, "--event"},
		"no source":         {[]string{"route", "backtest", "r"}, "--source"},
		"no route":          {[]string{"route", "backtest", "--source", "s"}, "what shall it be"},
		"a name and a file": {[]string{"route", "backtest", "r", "--source", "s", "-f", "x"}, "not both"},
		"no time":           {[]string{"route", "backtest", "--source", "s", "--task", "t", "--since", "yesterday"}, "--since"},
	} {
		got := pretend(t, 200, `{}`)
		if out := runCommand(c.args...); out.code != exitUsage || !strings.Contains(out.stderr, c.says) || len(*got) > 0 {
			t.Errorf("%s: got %+v and asked %v, want exit code %d, nothing asked, and %q in the reason", claim, out, *got, exitUsage, c.says)
		}
	}
}

// TestRoutesAreTriedOutOnStoredEvents sends pushes, and asks what other routes
// would do with them: nothing comes of that.
func TestRoutesAreTriedOutOnStoredEvents(t *testing.T) {
	startInstance(t, pgtest.New(t)).at(t, testAdminKey)
	if out := runCommand("route", "create", "ours", "--source", "github", "--filter", `{"event.source":"github"}`, "--task", "note"); out.code != 0 {
		t.Fatalf("a route: %+v", out)
	}
	for _, id := range []string{"one", "two", "three"} {
		if out := runCommand("send", "github", "--secret", testSecret, "--id", id); out.code != 0 {
			t.Fatalf("send: %+v", out)
		}
	}
	// A filter has no spaces here: the steps are cut at them.
	const never = `{"body.ref":{"$startsWith":"refs/tags/"}}`
	for _, step := range []struct{ command, prints string }{
		{"event get latest --wait", "delivered ours task success"},
		{"route create tags --source github --filter " + never + " --task release", "tags"},
		{"route test --event latest", "pushes matches, for task tags does not match: body.ref is refs/heads/main wanted $startsWith"},
		{"route test pushes --event latest", "pushes matches, for task task gets refs/heads/main"},
		{"route test tags --event latest", "tags does not match"},
		{"route test none --event latest", "! no route none"},
		{"route test --event 00000000-0000-7000-8000-000000000000", "! 404"},
		{"route backtest tags --source github", "tested 3 taken 0 fail 0 would not be 3 not have taken 3 × body.ref is …, wanted"},
		{"route backtest tags --source github --filter {\"event.source\":\"github\"} --samples 1", "tested 3 taken 3 have taken task gets refs/heads/main"},
		{"route backtest --source github --last 2 --promise-key body.none", "tested 2 fail 2 failed on 2 × body.none promise would fail: body.none"},
		{"route backtest --source github --task x --since 1ns", "no such events"},
		{"route backtest --source nowhere --task x --filter-expression 1+", "! 422 body.route.filter_expression body.source"},
		{"event list", "delivered delivered delivered"},
	} {
		got := runCommand(strings.Fields(step.command)...)
		words, fails := strings.CutPrefix(step.prints, "! ")
		if (got.code != 0) != fails {
			t.Fatalf("eventhook %s: got %+v, want failure: %v", step.command, got, fails)
		}
		t.Log("eventhook", step.command)
		wantInOrder(t, got.stdout+got.stderr, strings.Fields(words)...)
	}
	var only struct{ Routes []struct{ Name string } }
	raw := runCommand("route", "test", "tags", "--event", "latest", "-o", "json")
	if err := json.Unmarshal([]byte(raw.stdout), &only); err != nil || len(only.Routes) != 1 || only.Routes[0].Name != "tags" {
		t.Errorf("in JSON it is %+v, %v, want the one route", raw, err)
	}
}
