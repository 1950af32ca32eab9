package route_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/route"
	"github.com/eventhook/eventhook/targets"
)

// explained is an Explanation with its actions as strings: "type input" or "type !error".
type explained struct {
	Route, Reason string
	Matched       bool
	Actions       []string
}

func summaryOf(list []route.Explanation) []explained {
	var short []explained
	for _, x := range list {
		s := explained{Route: x.Route.Name, Reason: x.Reason, Matched: x.Matched}
		for _, a := range x.Actions {
			if a.Err != nil {
				s.Actions = append(s.Actions, a.Type+" !"+a.Err.Error())
				continue
			}
			s.Actions = append(s.Actions, a.Type+" "+string(a.Input))
		}
		short = append(short, s)
	}
	return short
}

func enabled(r eventhook.Route) eventhook.Route {
	r.IsEnabled = true
	return r
}

func TestExplain(t *testing.T) {
	disabled := newRoute("disabled", "push", "a")
	mixed := enabled(newRoute("mixed", "", "a", "fails", "uncompilable", "panics"))
	const unexpected = "failed unexpectedly; the gateway's log has the reason"
	for _, c := range []struct {
		claim  string
		routes []eventhook.Route
		want   []explained
	}{
		{"no routes", nil, nil},
		{"a matching type", []eventhook.Route{enabled(newRoute("r", "pull push", "a"))},
			[]explained{{"r", `event type "push" matches "push"`, true, []string{`task {"idempotency_key":"a","status":"","value":{"id":7}}`}}}},
		{"another type", []eventhook.Route{enabled(newRoute("r", "pull issue.*", "a"))},
			[]explained{{"r", `event type "push" matches none of pull, issue.*`, false, nil}}},
		{"every type", []eventhook.Route{enabled(newRoute("r", ""))}, []explained{{"r", "the route takes events of every type", true, nil}}},
		{"a star", []eventhook.Route{enabled(newRoute("r", "*"))}, []explained{{"r", `event type "push" matches "*"`, true, nil}}},
		{"a disabled route and a route after it", []eventhook.Route{disabled, enabled(newRoute("r", "pull"))},
			[]explained{{"disabled", "the route is disabled", false, nil}, {"r", `event type "push" matches none of pull`, false, nil}}},
		{"targets of which some fail", []eventhook.Route{mixed}, []explained{{"mixed", "the route takes events of every type", true, []string{
			`task {"idempotency_key":"a","status":"","value":{"id":7}}`, "task !target 2: nothing at body.id", "task !target 3: bad path", "task !target 4: " + unexpected,
		}}}},
	} {
		t.Run(c.claim, func(t *testing.T) {
			if diff := cmp.Diff(c.want, summaryOf(explain(t, compile(c.routes...), newEvent("push")))); diff != "" {
				t.Errorf("explained (-want +got):\n%s", diff)
			}
		})
	}
}

func TestExplainShowsTheInputsOfTargets(t *testing.T) {
	r := enabled(eventhook.Route{Name: "r", Targets: []eventhook.Target{
		{Type: eventhook.TargetWorkflow, Settings: []byte(`{"workflow_kind":"pay"}`)},
		{Type: eventhook.TargetPromise, Settings: []byte(`{"idempotency_key_path":"body.id","idempotency_key_prefix":"p:","value_path":"body.data"}`)},
		{Type: eventhook.TargetPromise, Settings: []byte(`{"idempotency_key_path":"body.id","resolve":false}`)},
		{Type: "publish", Settings: []byte(`{"event_type":"paid","idempotency_key_path":"body.id"}`)},
		{Type: eventhook.TargetPromise, Settings: []byte(`{"idempotency_key_path":"header.x-id"}`)},
		{Type: "http", Settings: []byte(`{"url":"https://internal.example/"}`)},
	}})
	r.ID = eventhook.NewID[eventhook.Route](noon)
	p := route.Compile(eventhook.RetryPolicy{}, []eventhook.Route{r}, func(t eventhook.Target) (route.Effector, error) { return targets.New(t, targets.Deps{}) })
	e := newEvent("push")
	e.Body = []byte(`{"id":7,"data":[1]}`)
	want := []string{
		`workflow {"id":7,"data":[1]}`,
		`promise {"idempotency_key":"p:7","status":"resolved","value":[1]}`,
		`promise {"idempotency_key":"7","status":"rejected","error":"rejected by the webhook"}`,
		`publish {"event_type":"paid","idempotency_key":"7","data":{"id":7,"data":[1]}}`,
	}
	got := summaryOf(explain(t, p, e))[0].Actions
	if diff := cmp.Diff(want, got[:4]); diff != "" {
		t.Errorf("inputs (-want +got):\n%s", diff)
	}
	if !strings.Contains(got[4], "header.x-id") {
		t.Errorf("a promise without its key: got %s, want an error with its path", got[4])
	}
	if key := fmt.Sprintf("%s/%s/5", e.ID, r.ID); !strings.Contains(got[5], `"Idempotency-Key":"`+key+`"`) || !strings.Contains(got[5], `"body":{"id":7,"data":[1]}`) {
		t.Errorf("a request: got %s, want its body and the key %s", got[5], key)
	}
}

// If filters cannot be evaluated, the route counts as a match whose actions fail, both in Explain and in
// Settle.
func TestExplainReportsUndecidedRoutes(t *testing.T) {
	const notPlain = "filter_function: filter must be a plain function that returns its result: "
	for _, c := range []struct{ claim, function, want string }{
		{"a function that is stopped", "function filter() { for (;;); }", "filter_function: the script was stopped: it ran longer than 1s"},
		{"a function that returns a promise", "const ask = async () => false; const filter = () => ask()", notPlain + "it returned a promise"},
		{"a stored async function", "async function filter() { return false }", notPlain + "it is async"},
	} {
		t.Run(c.claim, func(t *testing.T) {
			r := enabled(newRoute("r", "", "a"))
			r.FilterFunction = c.function
			want := []explained{{"r", "cannot tell: " + c.want, true, []string{"task !" + c.want}}}
			if diff := cmp.Diff(want, summaryOf(explain(t, compile(r), newEvent("push")))); diff != "" {
				t.Errorf("explained (-want +got):\n%s", diff)
			}
			actions := compile(r).Settle(nil, newEvent("push"), nil, noon).Actions
			if len(actions) != 1 || actions[0].Failure != c.want {
				t.Errorf("settled: got %+v, want one action that fails: %s", actions, c.want)
			}
		})
	}
}
