package route_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/effects"
	"github.com/eventhook/eventhook/internal/payload"
	"github.com/eventhook/eventhook/route"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// effector is a target whose effect is a promise outcome with the task kind as its key.
type effector string

func (x effector) Effect(_ *eventhook.Event, v *payload.View, _ time.Time) (effects.Effect, error) {
	switch x {
	case "fails":
		return effects.Effect{}, errors.New("nothing at body.id")
	case "panics":
		var none *eventhook.Event
		return effects.Effect{}, errors.New(none.EventType)
	case "takes 3 s":
		time.Sleep(3 * time.Second) // in a bubble
	}
	return effects.Effect{Promise: &effects.PromiseOutcome{Key: string(x), Value: v.Render()}}, nil
}

func compileTarget(t eventhook.Target) (route.Effector, error) {
	kind := kindOf(t)
	switch kind {
	case "uncompilable":
		return nil, errors.New("bad path")
	case "of a later version":
		return nil, fmt.Errorf("%w %q", eventhook.ErrUnknownTarget, "mail")
	case "panics when compiled":
		panic("secret")
	}
	return effector(kind), nil
}

// taskOf returns a target that creates tasks of a kind.
func taskOf(kind string) eventhook.Target {
	return eventhook.Target{Type: "task", Settings: fmt.Appendf(nil, `{"task_kind":%q}`, kind)}
}

// kindOf returns the kind of tasks that a target creates.
func kindOf(t eventhook.Target) string {
	var settings struct {
		TaskKind string `json:"task_kind"`
	}
	_ = json.Unmarshal(t.Settings, &settings)
	return settings.TaskKind
}

// newRoute returns a route for event types, separated by spaces, with a task target for each kind.
func newRoute(name, types string, kinds ...string) eventhook.Route {
	r := eventhook.Route{ID: eventhook.NewID[eventhook.Route](noon), Name: name, FilterEventTypes: strings.Fields(types)}
	for _, kind := range kinds {
		r.Targets = append(r.Targets, taskOf(kind))
	}
	return r
}

func compile(routes ...eventhook.Route) *route.Program {
	return route.Compile(eventhook.RetryPolicy{}, routes, compileTarget)
}

func newEvent(eventType string) *eventhook.Event {
	return &eventhook.Event{ID: eventhook.NewID[eventhook.Event](noon), EventType: eventType, Payload: eventhook.Payload{Body: []byte(`{"id":7}`)}}
}

// filtered returns a route with a filter.
func filtered(pattern string) eventhook.Route {
	r := enabled(newRoute("r", "", "a"))
	r.Filter = json.RawMessage(pattern)
	return r
}

// carrying returns an event with a JSON body and headers of the form "Name: value".
func carrying(body string, headers ...string) *eventhook.Event {
	e := newEvent("push")
	e.ContentType, e.Body = "application/json", []byte(body)
	if len(headers) > 0 {
		e.Headers = []byte(strings.Join(headers, "\r\n") + "\r\n")
	}
	return e
}

// verdict reports whether a route matches an event, and the reason. It requires that Check finds no
// faults and that Explain and Settle agree.
func verdict(t *testing.T, r eventhook.Route, e *eventhook.Event) (matched bool, reason string) {
	t.Helper()
	if faults := check(t, r); len(faults) > 0 {
		t.Fatalf("Check(%s): got %v, want no faults", r.Filter, faults)
	}
	p := compile(r)
	x := explain(t, p, e)[0]
	if got := p.Settle(nil, e, nil, noon).Matched > 0; got != x.Matched {
		t.Errorf("Settle matched: got %t, want %t as explained: %s", got, x.Matched, x.Reason)
	}
	return x.Matched, x.Reason
}

func TestPatterns(t *testing.T) {
	for _, c := range []struct {
		patterns, eventType string
		want                bool
	}{
		{"", "push", true},
		{"", "", true},
		{"*", "push", true},
		{"*", "", true},
		{"push", "push", true},
		{"push", "pushed", false},
		{"push", "Push", false},
		{"push", "", false},
		{"payment.*", "payment.made", true},
		{"payment.*", "payment.made.twice", true},
		{"payment.*", "payment.", true},
		{"payment.*", "payment", false},
		{"payment.*", "payments.made", false},
		{"payment.*", "a.payment.made", false},
		{"a.b.*", "a.b.c", true},
		{"a.b.*", "a.c.b", false},
		{"push payment.*", "payment.made", true},
		{"push payment.*", "push", true},
		{"push payment.*", "pull", false},
		{"push *", "pull", true},
	} {
		got := compile(newRoute("r", c.patterns, "ok")).Settle(nil, newEvent(c.eventType), nil, noon).Matched == 1
		if got != c.want {
			t.Errorf("%q on %q: got %t, want %t", c.patterns, c.eventType, got, c.want)
		}
	}
}

// planned is a summary of an action.
type planned struct{ Route, Key, Failure string }

func summary(s *effects.Settlement) []planned {
	var list []planned
	for _, a := range s.Actions {
		p := planned{Route: a.RouteName, Failure: a.Failure}
		if a.Effect.Promise != nil {
			p.Key = a.Effect.Promise.Key
		}
		list = append(list, p)
	}
	return list
}

func TestSettle(t *testing.T) {
	const unexpected = "failed unexpectedly; the gateway's log has the reason"
	first, second, other := newRoute("first", "", "a", "b"), newRoute("second", "push", "c"), newRoute("other", "pull", "d")
	did := func(r eventhook.Route, index int) eventhook.Action {
		return eventhook.Action{RouteID: r.ID, TargetIndex: index, Status: eventhook.ActionSuccess}
	}
	for _, c := range []struct {
		claim   string
		routes  []eventhook.Route
		done    []eventhook.Action
		matched int
		want    []planned
	}{
		{"no routes", nil, nil, 0, nil},
		{"no route matches", []eventhook.Route{other}, nil, 0, nil},
		{"routes in order, with all their targets", []eventhook.Route{second, other, first}, nil, 3, []planned{{"second", "c", ""}, {"first", "a", ""}, {"first", "b", ""}}},
		{"finished actions are skipped but counted", []eventhook.Route{first, second}, []eventhook.Action{did(first, 0), did(second, 0)}, 3, []planned{{"first", "b", ""}}},
		{"all actions are finished", []eventhook.Route{second}, []eventhook.Action{did(second, 0)}, 1, nil},
		{"actions of another route do not count", []eventhook.Route{second}, []eventhook.Action{did(first, 0), did(second, 1)}, 1, []planned{{"second", "c", ""}}},
		{"a route without targets", []eventhook.Route{newRoute("empty", "")}, nil, 0, nil},
		{
			"a target that fails does not affect others", []eventhook.Route{newRoute("r", "", "a", "fails", "b")}, nil, 3,
			[]planned{{"r", "a", ""}, {"r", "", "target 2: nothing at body.id"}, {"r", "b", ""}},
		},
		{
			"a target that cannot be compiled does not affect others", []eventhook.Route{newRoute("r", "", "uncompilable", "b"), first}, nil, 4,
			[]planned{{"r", "", "target 1: bad path"}, {"r", "b", ""}, {"first", "a", ""}, {"first", "b", ""}},
		},
		{
			"a target that panics does not affect others", []eventhook.Route{newRoute("r", "", "a", "panics", "panics when compiled", "b")}, nil, 4,
			[]planned{{"r", "a", ""}, {"r", "", "target 2: " + unexpected}, {"r", "", "target 3: " + unexpected}, {"r", "b", ""}},
		},
	} {
		t.Run(c.claim, func(t *testing.T) {
			e := newEvent("push")
			s := compile(c.routes...).Settle(nil, e, c.done, noon)
			if s.Event != e || s.Matched != c.matched {
				t.Errorf("got event %s with %d matched, want %s with %d", s.Event.ID, s.Matched, e.ID, c.matched)
			}
			if diff := cmp.Diff(c.want, summary(s)); diff != "" {
				t.Errorf("actions (-want +got):\n%s", diff)
			}
			for _, a := range s.Actions {
				if a.Permanent != (a.Failure != "") {
					t.Errorf("target %d: got permanent %t with failure %q, want both or none", a.TargetIndex, a.Permanent, a.Failure)
				}
			}
		})
	}
}

func TestActionsHaveTheirOrigin(t *testing.T) {
	r, e := newRoute("r", "", "a", "b"), newEvent("push")
	got := compile(r).Settle(nil, e, nil, noon).Actions[1].Action
	if !got.ID.Time().Equal(noon) {
		t.Errorf("got an id of %s, want %s", got.ID.Time(), noon)
	}
	want := eventhook.Action{ID: got.ID, EventID: e.ID, RouteID: r.ID, RouteName: "r", TargetIndex: 1, TargetType: "task", Attempts: 1, StartedAt: noon}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("action (-want +got):\n%s", diff)
	}
}

func TestRetriesDefaultToThoseOfEvents(t *testing.T) {
	for _, c := range []struct{ source, want eventhook.RetryPolicy }{
		{eventhook.RetryPolicy{}, eventhook.EventRetry},
		{eventhook.RetryPolicy{MaxRetries: new(0)}, eventhook.RetryPolicy{MaxRetries: new(0), InitialDelayMS: 10_000, BackoffMultiplier: 3, MaxDelayMS: 3_600_000}},
	} {
		got := route.Compile(c.source, nil, compileTarget).Settle(nil, newEvent("push"), nil, noon).Retry
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("retry (-want +got):\n%s", diff)
		}
	}
}

// During an upgrade, an instance of the old version can read targets of types that only the new version
// knows.
func TestOnlyTargetsOfUnknownTypesAreRetried(t *testing.T) {
	for kind, permanent := range map[string]bool{"of a later version": false, "uncompilable": true, "panics when compiled": true, "fails": true, "panics": true} {
		s := compile(newRoute("r", "", kind)).Settle(nil, newEvent("push"), nil, noon)
		if len(s.Actions) != 1 || s.Actions[0].Failure == "" || s.Actions[0].Permanent != permanent {
			t.Errorf("%s: got %+v, want one failed action, permanent: %t", kind, s.Actions, permanent)
		}
	}
}

// A stored filter with faults must neither match all events nor silently match none.
func TestAFilterWithFaultsFailsItsActions(t *testing.T) {
	for _, text := range []string{`{"body.a":{"$near":1}}`, `[`, `{"$or":[]}`, "\xff"} {
		s := compile(filtered(text)).Settle(nil, newEvent("push"), nil, noon)
		if len(s.Actions) != 1 || !s.Actions[0].Permanent || !strings.HasPrefix(s.Actions[0].Failure, "filter") {
			t.Errorf("%q: got %+v, want a permanent failure of the filter", text, s.Actions)
		}
	}
}
