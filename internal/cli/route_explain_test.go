package cli

import (
	"strings"
	"testing"

	"github.com/eventhook/eventhook/client"
	"github.com/eventhook/eventhook/route"
)

func TestRouteTestOutput(t *testing.T) {
	const why = "filter_function: the script was stopped: it ran longer than 100ms"
	action := func(wrong string) []client.ActionExplanation {
		if wrong == "" {
			return []client.ActionExplanation{{TargetType: "task"}}
		}
		return []client.ActionExplanation{{TargetType: "task", Error: &wrong}}
	}
	for _, c := range []struct {
		claim string
		route client.RouteExplanation
		want  string
	}{
		{"undecided", client.RouteExplanation{Name: "r", Matched: true, Reason: "cannot tell: " + why, Actions: action(why)}, "  r cannot tell: " + why + "\n"},
		{"not matched", client.RouteExplanation{Name: "r", Reason: "body.a is missing"}, "  r does not match: body.a is missing\n"},
		{"matched", client.RouteExplanation{Name: "r", Matched: true, Reason: "of every type", Actions: action("")}, "  r matches, for task: of every type\n    task gets null\n"},
		{"matched, and a target would fail", client.RouteExplanation{Name: "r", Matched: true, Reason: "of every type", Actions: action("nothing at body.id")},
			"  r matches, for task (would fail: nothing at body.id): of every type\n    task would fail: nothing at body.id\n"},
	} {
		t.Run(c.claim, func(t *testing.T) {
			var b strings.Builder
			if err := showRouteTest(&b, c.route); err != nil || b.String() != c.want {
				t.Errorf("got %q, %v; want %q", b.String(), err, c.want)
			}
		})
	}
}

func TestUndecidedPrefixIsThatOfTheGateway(t *testing.T) {
	if undecidedPrefix != route.UndecidedPrefix {
		t.Errorf("undecidedPrefix is %q, want %q of package route", undecidedPrefix, route.UndecidedPrefix)
	}
}
