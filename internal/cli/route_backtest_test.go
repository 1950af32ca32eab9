package cli

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/eventhook/eventhook/internal/cli/clitest"
)

func TestRouteBacktestSendsTheRoute(t *testing.T) {
	asFile := clitest.WriteFile(t, "route.json", `{"name": "large", "priority": 9007199254740993, "targets": [{"type": "task", "task_kind": "a"}]}`)
	type object = map[string]any
	build := []any{object{"type": "task", "task_kind": "build"}}
	for _, c := range []struct {
		claim string
		args  []string
		want  object
	}{
		{"a route of flags", []string{"--filter", `{"body.n":{"$gte":1}}`, "--task", "build"},
			object{"source": "s", "route": object{"name": "proposed", "filter": object{"body.n": object{"$gte": 1.0}}, "targets": build}}},
		{"a route of a file with flags", []string{"-f", asFile, "--task", "build", "--last", "20", "--samples", "0", "--since", "2026-01-01T00:00:00Z"},
			object{"source": "s", "last": 20.0, "samples": 0.0, "since": "2026-01-01T00:00:00Z", "route": object{"name": "large", "priority": 9007199254740993.0, "targets": build}}},
	} {
		t.Run(c.claim, func(t *testing.T) {
			got := startFakeGateway(t, 200, `{}`)
			if out := runCommand(append([]string{"route", "backtest", "--source", "s"}, c.args...)...); out.Code != 0 {
				t.Fatalf("got %+v, want success", out)
			}
			want := []request{{"POST", inShop + "/routes/backtest", c.want}}
			if diff := cmp.Diff(want, *got, cmp.AllowUnexported(request{})); diff != "" {
				t.Errorf("requests (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRouteTestAndBacktestRequireArguments(t *testing.T) {
	for claim, c := range map[string]struct {
		args []string
		says string
	}{
		"no event":          {[]string{"route", "test"}, "--event"},
		"no source":         {[]string{"route", "backtest", "r"}, "--source"},
		"no route":          {[]string{"route", "backtest", "--source", "s"}, "the request is empty"},
		"a name and a file": {[]string{"route", "backtest", "r", "--source", "s", "-f", "x"}, "cannot be combined"},
		"no time":           {[]string{"route", "backtest", "--source", "s", "--task", "t", "--since", "yesterday"}, "--since"},
	} {
		got := startFakeGateway(t, 200, `{}`)
		if out := runCommand(c.args...); out.Code != ExitUsage || !strings.Contains(out.Stderr, c.says) || len(*got) > 0 {
			t.Errorf("%s: got %+v and requests %v, want exit code %d, no requests, and %q in the error", claim, out, *got, ExitUsage, c.says)
		}
	}
}
