package route_test

import (
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/effects"
	"github.com/eventhook/eventhook/internal/script"
	"github.com/eventhook/eventhook/route"
	"github.com/eventhook/eventhook/targets"
)

// shaped returns a route with a transform and three targets: a workflow, and promises without and with
// a path to their value.
func shaped(kind, expression string) eventhook.Route {
	return enabled(eventhook.Route{Name: "r", Transform: &eventhook.Transform{Type: kind, Expression: expression}, Targets: []eventhook.Target{
		{Type: eventhook.TargetWorkflow, Settings: []byte(`{"idempotency_key_path":"body.id","workflow_kind":"pay"}`)},
		{Type: eventhook.TargetPromise, Settings: []byte(`{"idempotency_key_path":"body.id"}`)},
		{Type: eventhook.TargetPromise, Settings: []byte(`{"idempotency_key_path":"body.id","value_path":"body.data"}`)},
	}})
}

func compileReal(r eventhook.Route) *route.Program {
	return route.Compile(eventhook.RetryPolicy{}, []eventhook.Route{r}, func(t eventhook.Target) (route.Effector, error) { return targets.New(t, targets.Deps{}) })
}

func TestTransforms(t *testing.T) {
	for _, c := range []struct{ claim, kind, expression, body, want string }{
		{"JMESPath over the body", "jmespath", "{id: id, n: data.n}", `{"id":"p1","data":{"n":5}}`, `{"id":"p1","n":5}`},
		{"JMESPath keeps long numbers", "jmespath", "data", `{"id":"p1","data":[9007199254740993,0.1,1e400,123456789012345678.5]}`, `[9007199254740993,0.1,1e400,123456789012345678.5]`},
		{"JMESPath compares numbers with a fraction", "jmespath", "data[?n > `1`].n", `{"id":"p1","data":[{"n":1},{"n":2.5}]}`, `[2.5]`},
		{"JavaScript over the event", "javascript", "function transform(e) { return {t: e.type, env: e.headers['x-env'], n: e.body.data.n + 1} }", `{"id":"p1","data":{"n":5}}`, `{"t":"push","env":"live","n":6}`},
		{"an arrow function", "javascript", "const transform = e => e.body.data", `{"id":"p1","data":[1]}`, `[1]`},
		{"null", "jmespath", "nothing", `{"id":"p1","data":1}`, `null`},
		{"a string", "javascript", "function transform() { return 'é<\\u0000' }", `{"id":"p1","data":1}`, `"é<\u0000"`},
	} {
		t.Run(c.claim, func(t *testing.T) {
			r := shaped(c.kind, c.expression)
			if faults := check(t, r); len(faults) > 0 {
				t.Fatalf("Check: got %v, want no faults", faults)
			}
			e := carrying(c.body, "X-Env: live")
			actions := compileReal(r).Settle(nil, e, nil, noon).Actions
			if len(actions) != 3 || actions[0].Failure != "" || actions[1].Failure != "" {
				t.Fatalf("got %+v, want three actions that do not fail", actions)
			}
			if got := string(actions[0].Effect.Execution.Input); got != c.want {
				t.Errorf("the workflow's input: got %s, want %s", got, c.want)
			}
			if got := string(actions[1].Effect.Promise.Value); got != c.want {
				t.Errorf("the promise's value: got %s, want %s", got, c.want)
			}
			var body struct{ Data json.RawMessage }
			_ = json.Unmarshal([]byte(c.body), &body)
			if got := string(actions[2].Effect.Promise.Value); got != string(body.Data) {
				t.Errorf("the value at its path: got %s, want the event's own %s", got, body.Data)
			}
			if got := actions[0].Effect.Execution.IdempotencyKey; got != "p1" {
				t.Errorf("the key: got %q, want the event's own", got)
			}
		})
	}
}

func TestAllTargetsOfARouteGetTheSameOutput(t *testing.T) {
	p := compileReal(shaped("javascript", "const transform = () => Math.random()"))
	actions := p.Settle(nil, carrying(`{"id":"p1"}`), nil, noon).Actions
	for actions[0].Failure != "" && !actions[0].Permanent { // on a busy machine
		actions = p.Settle(nil, carrying(`{"id":"p1"}`), nil, noon).Actions
	}
	if one, other := actions[0].Effect.Execution.Input, actions[1].Effect.Promise.Value; string(one) != string(other) {
		t.Errorf("got %s and %s, want the same output: the transform runs once", one, other)
	}
}

func TestWithoutATransformInputsAreTheBody(t *testing.T) {
	r := shaped("", "")
	r.Transform = nil
	if got := compileReal(r).Settle(nil, carrying(`{"id":1}`), nil, noon).Actions[0].Effect.Execution.Input; got != nil {
		t.Errorf("got input %s, want none, which means the body", got)
	}
}

func TestFailedScriptsFailTheirActions(t *testing.T) {
	const js, jp = "javascript", "jmespath"
	good := newRoute("good", "", "b")
	transformed := func(kind, expression string) eventhook.Route {
		r := newRoute("bad", "", "a", "b")
		r.Transform = &eventhook.Transform{Type: kind, Expression: expression}
		return r
	}
	retried := func(kind, expression string) eventhook.Route {
		r := transformed(kind, expression)
		r.Transform.Retry = true
		return r
	}
	function := func(source string) eventhook.Route {
		r := newRoute("bad", "", "a", "b")
		r.FilterFunction = source
		return r
	}
	for _, c := range []struct {
		claim     string
		route     eventhook.Route
		want      string
		transient bool
	}{
		{"a transform that throws", transformed(js, "function transform(e) { throw new Error('no id') }"), "transform: line 1, column 40: Error: no id", false},
		{"a transform that returns nothing", transformed(js, "function transform(e) {}"), "transform: transform returned a value without a JSON form, such as undefined", false},
		{"a transform that hangs", transformed(js, "function transform(e) { for (;;); }"), "transform: the script was stopped: it ran longer than 1s", false},
		{"a transform that needs too much memory", transformed(js, "const transform = () => new ArrayBuffer(1e9)"), "transform: it was stopped: it used more than 32 MiB", false},
		{"a transform with retry that throws", retried(js, "function transform(e) { throw new Error('no id') }"), "transform: line 1, column 40: Error: no id", true},
		{"a transform with retry that hangs", retried(js, "function transform(e) { for (;;); }"), "transform: the script was stopped: it ran longer than 1s", true},
		{"a transform that does not compile", transformed(js, "function transform(e"), "transform: line 1, column 21: SyntaxError", false},
		{"a JMESPath transform that does not compile", transformed(jp, "{id: "), "transform: line 1, column 6: the expression ends too early", false},
		{"a transform of an unknown type", transformed("xslt", "x"), "transform", false},
		{"a JMESPath function with the wrong type", transformed(jp, "abs(@)"), "transform: invalid type for", false},
		{"a filter that hangs", function("function filter() { for (;;); }"), "filter_function: the script was stopped: it ran longer than 1s", true},
		{"a filter that needs too much memory", function("function filter() { return new ArrayBuffer(1e9) }"), "filter_function: it was stopped: it used more than 32 MiB", false},
		{"a misspelled filter", function("function filtre() {}"), "filter_function: it defines no function filter(event)", false},
	} {
		t.Run(c.claim, func(t *testing.T) {
			s := compile(c.route, good).Settle(nil, newEvent("push"), nil, noon)
			if s.Matched != 3 || len(s.Actions) != 3 {
				t.Fatalf("got %d matched, %d actions, want 3: the bad route's two, and the good one's", s.Matched, len(s.Actions))
			}
			// On a busy machine the run may be starved, which is transient.
			either := strings.Contains(c.want, "ran longer") && !c.transient
			for _, a := range s.Actions[:2] {
				if !strings.HasPrefix(a.Failure, c.want) || a.Permanent == c.transient && !either {
					t.Errorf("got failure %q, permanent %t; want %q, %t", a.Failure, a.Permanent, c.want, !c.transient)
				}
			}
			if diff := cmp.Diff([]planned{{"good", "b", ""}}, summary(&effects.Settlement{Actions: s.Actions[2:]})); diff != "" {
				t.Errorf("the good route's action (-want +got):\n%s", diff)
			}
			c.route.IsEnabled = true
			x := explain(t, compile(c.route), newEvent("push"))[0]
			if len(x.Actions) != 2 || x.Actions[0].Err == nil || !strings.HasPrefix(x.Actions[0].Err.Error(), c.want) {
				t.Errorf("explained: got %+v, want actions that fail with %q", x, c.want)
			}
		})
	}
}

// Which limit a script exceeds first depends on the machine.
func TestStoppedScriptsFailOnlyTheirActions(t *testing.T) {
	for claim, set := range map[string]func(*eventhook.Route){
		"a filter that calls itself": func(r *eventhook.Route) { r.FilterFunction = "function filter(e) { return filter(e) }" },
		"a transform that calls itself": func(r *eventhook.Route) {
			r.Transform = &eventhook.Transform{Type: "javascript", Expression: "function transform(e) { return {e: transform(e)} }"}
		},
		"a transform that allocates in a loop": func(r *eventhook.Route) {
			r.Transform = &eventhook.Transform{Type: "javascript", Expression: "function transform(e) { for (const all = [];;) all.push(new ArrayBuffer(1e6)) }"}
		},
	} {
		t.Run(claim, func(t *testing.T) {
			bad := newRoute("bad", "", "a")
			set(&bad)
			s := compile(bad, newRoute("good", "", "b")).Settle(nil, newEvent("push"), nil, noon)
			if len(s.Actions) != 2 || !strings.Contains(s.Actions[0].Failure, "it was stopped: ") || s.Actions[1].Failure != "" {
				t.Errorf("got %+v, want the first stopped, and no failure of the second", s.Actions)
			}
		})
	}
}

func TestNoTransformRunsForFinishedActions(t *testing.T) {
	r := newRoute("r", "", "a")
	r.Transform = &eventhook.Transform{Type: "javascript", Expression: "function transform() { for (;;); }"}
	done := []eventhook.Action{{RouteID: r.ID, TargetIndex: 0, Status: eventhook.ActionSuccess}}
	if s := compile(r).Settle(nil, newEvent("push"), done, noon); s.Matched != 1 || len(s.Actions) != 0 {
		t.Errorf("got %d matched with %d actions, want 1 with none", s.Matched, len(s.Actions))
	}
}

// A stored filter that does not compile must neither match all events nor silently match none.
func TestFiltersThatNoLongerCompileFailTheirActions(t *testing.T) {
	for claim, set := range map[string]func(*eventhook.Route){
		"filter: ":            func(r *eventhook.Route) { r.Filter = []byte(`{"body.a":{"$near":1}}`) },
		"filter.body.a.$gt: ": func(r *eventhook.Route) { r.Filter = []byte(`{"body.a":{"$gt":null}}`) },
		"filter_expression: ": func(r *eventhook.Route) { r.FilterExpression = "body.a >" },
	} {
		r := newRoute("r", "push", "a")
		set(&r)
		s := compile(r).Settle(nil, newEvent("push"), nil, noon)
		if len(s.Actions) != 1 || !strings.HasPrefix(s.Actions[0].Failure, claim[:6]) || !s.Actions[0].Permanent {
			t.Errorf("%s: got %+v, want one permanent failure", claim, s.Actions)
		}
		if s := compile(r).Settle(nil, newEvent("pull"), nil, noon); s.Matched != 0 {
			t.Errorf("%s: got %d matched of another type, want none", claim, s.Matched)
		}
	}
}

func TestScriptsShareNoState(t *testing.T) {
	r := newRoute("r", "", "a")
	r.FilterFunction = "let seen = 0; globalThis.all ??= 0; function filter() { return ++seen + ++all > 2 }"
	p := compile(r)
	for i := range 3 {
		if s := p.Settle(nil, newEvent("push"), nil, noon); s.Matched != 0 {
			t.Errorf("run %d: it matched, want every run to be the first", i+1)
		}
	}
}

func TestATransformThatCouldNotRunIsRetried(t *testing.T) {
	for reason, transient := range map[script.Reason]bool{script.NotStarted: true, script.Starved: true, script.Lost: false, script.TimedOut: false, script.Failed: false} {
		r := newRoute("r", "", "a")
		r.Transform = &eventhook.Transform{Type: "jmespath", Expression: "a"}
		inBubble(t, nil, func(_ *testing.T, b *harness) {
			b.RunScriptsWith(func(script.Program, []byte) (json.RawMessage, error) {
				return nil, &script.Error{Reason: reason, Message: "no"}
			})
			b.run()
			b.handOver(1)
			synctest.Wait()
			want := eventhook.EventDead
			if transient {
				want = eventhook.EventFailed
			}
			b.wantStatuses(states{want: 1})
		}, r)
	}
}
