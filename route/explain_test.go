package route_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/route"
	"github.com/eventhook/eventhook/targets"
)

// explained is an explanation in short; actions are "type input" or "type !error".
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
	const bland = "failed unexpectedly; the gateway's log has the reason"
	for _, c := range []struct {
		claim  string
		routes []eventhook.Route
		want   []explained
	}{
		{"no routes", nil, nil},
		{"a type that is named", []eventhook.Route{enabled(newRoute("r", "pull push", "a"))},
			[]explained{{"r", `event type "push" matches "push"`, true, []string{`task {"idempotency_key":"a","status":"","value":{"id":7}}`}}}},
		{"a type that is not", []eventhook.Route{enabled(newRoute("r", "pull issue.*", "a"))},
			[]explained{{"r", `event type "push" matches none of pull, issue.*`, false, nil}}},
		{"every type", []eventhook.Route{enabled(newRoute("r", ""))}, []explained{{"r", "the route takes events of every type", true, nil}}},
		{"a star", []eventhook.Route{enabled(newRoute("r", "*"))}, []explained{{"r", `event type "push" matches "*"`, true, nil}}},
		{"a disabled one that would match, and one after it", []eventhook.Route{disabled, enabled(newRoute("r", "pull"))},
			[]explained{{"disabled", "the route is disabled", false, nil}, {"r", `event type "push" matches none of pull`, false, nil}}},
		{"targets that fail beside one that does not", []eventhook.Route{mixed}, []explained{{"mixed", "the route takes events of every type", true, []string{
			`task {"idempotency_key":"a","status":"","value":{"id":7}}`, "task !target 2: nothing at body.id", "task !target 3: bad path", "task !target 4: " + bland,
		}}}},
	} {
		t.Run(c.claim, func(t *testing.T) {
			if diff := cmp.Diff(c.want, summaryOf(explain(t, compile(c.routes...), newEvent("push")))); diff != "" {
				t.Errorf("explained (-want +got):\n%s", diff)
			}
		})
	}
}

func TestExplainShowsWhatTargetsAreGiven(t *testing.T) {
	never := false
	r := enabled(eventhook.Route{Name: "r", Targets: []eventhook.Target{
		{Type: eventhook.TargetWorkflow, WorkflowKind: "pay"},
		{Type: eventhook.TargetPromise, IdempotencyKeyPath: "body.id", IdempotencyKeyPrefix: "p:", ValuePath: "body.data"},
		{Type: eventhook.TargetPromise, IdempotencyKeyPath: "body.id", Resolve: &never},
		{Type: eventhook.TargetPromise, IdempotencyKeyPath: "header.x-id"},
	}})
	p := route.Compile(eventhook.RetryPolicy{}, []eventhook.Route{r}, func(t eventhook.Target) (route.Effector, error) { return targets.New(t) })
	e := newEvent("push")
	e.Body = []byte(`{"id":7,"data":[1]}`)
	want := []string{
		`workflow {"id":7,"data":[1]}`,
		`promise {"idempotency_key":"p:7","status":"resolved","value":[1]}`,
		`promise {"idempotency_key":"7","status":"rejected","error":"rejected by the webhook"}`,
	}
	got := summaryOf(explain(t, p, e))[0].Actions
	if diff := cmp.Diff(want, got[:3]); diff != "" {
		t.Errorf("given (-want +got):\n%s", diff)
	}
	if !strings.Contains(got[3], "header.x-id") {
		t.Errorf("a promise without its key: got %s, want the path that led nowhere", got[3])
	}
}
