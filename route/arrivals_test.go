package route_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/effects"
	"github.com/eventhook/eventhook/internal/meter"
	"github.com/eventhook/eventhook/internal/payload"
	"github.com/eventhook/eventhook/route"
)

// maker is a target whose effect is selected by its task kind.
type maker struct {
	kind string
	made func() // called for each effect
}

func (x maker) Effect(e *eventhook.Event, v *payload.View, now time.Time) (effects.Effect, error) {
	x.made()
	switch x.kind {
	case "request":
		return effects.Effect{Request: &effects.Request{Body: v.Transformed()}}, nil
	case "publish":
		return effects.Effect{Publication: &effects.Publication{ID: eventhook.NewID[eventhook.Event](now), EventType: "e", Data: e.Body}}, nil
	case "promise":
		return effects.Effect{Promise: &effects.PromiseOutcome{Key: "k"}}, nil
	case "fails":
		return effects.Effect{}, errors.New("nothing at body.id")
	case "later version":
		return effects.Effect{}, eventhook.ErrUnknownTarget
	}
	return effects.Effect{Execution: &eventhook.Execution{ID: eventhook.NewID[eventhook.Execution](now), TenantID: e.TenantID, EventID: e.ID, Kind: x.kind}}, nil
}

// makers makes b compile targets as makers, and returns a counter of their effects.
func (b *harness) makers() (made *int) {
	made = new(int)
	b.compile = func(t eventhook.Target) (route.Effector, error) { return maker{kindOf(t), func() { *made++ }}, nil }
	return made
}

func (b *harness) load() {
	b.t.Helper()
	if err := b.Load(b.t.Context(), eventhook.TenantID{}, eventhook.SourceID{}); err != nil {
		b.t.Fatalf("load the routes: %v", err)
	}
}

// fanout is a route.Fanout with a fixed number of deliveries of each published event.
type fanout struct {
	deliveries int
	isUnknown  bool
	steps      int // steps that MatchNow uses
}

func (fanout) Match(context.Context, *meter.Meter, *effects.Settlement) error {
	panic("Match waits")
}

func (f fanout) MatchNow(m *meter.Meter, s *effects.Settlement) bool {
	_ = m.Use(f.steps)
	for _, a := range s.Actions {
		if p := a.Effect.Publication; p != nil {
			p.Deliveries = make([]*eventhook.Delivery, f.deliveries)
		}
	}
	return !f.isUnknown
}

func TestPlanArrival(t *testing.T) {
	scripted := newRoute("r", "", "task")
	scripted.FilterFunction = "0s"
	promising := newRoute("r", "", "task")
	promising.Targets[0].Type = "promise"
	scriptedElsewhere := newRoute("r", "pull", "task")
	scriptedElsewhere.FilterFunction = "0s"
	for _, c := range []struct {
		claim   string
		route   eventhook.Route
		body    int // bytes
		fanout  fanout
		actions int // number of planned actions; -1: the event is not planned
	}{
		{"no route matches", newRoute("r", "pull", "task"), 8, fanout{}, 0},
		{"a task, a request and an event", newRoute("r", "", "task", "request", "publish"), 8, fanout{deliveries: 3}, 3},
		{"the outcome of a promise", newRoute("r", "", "task", "promise"), 8, fanout{}, -1},
		{"an action that fails", newRoute("r", "", "task", "fails"), 8, fanout{}, -1},
		{"a route with a script", scripted, 8, fanout{}, -1},
		{"a route with a target of type promise", promising, 8, fanout{}, -1},
		{"a route with a script for other events", scriptedElsewhere, 8, fanout{}, 0},
		{"the largest body", newRoute("r", "", "task"), 64 << 10, fanout{}, 1},
		{"a larger body", newRoute("r", "", "task"), 64<<10 + 1, fanout{}, -1},
		{"many actions", newRoute("r", "", slices.Repeat([]string{"task"}, 100)...), 8, fanout{}, 100},
		{"too many actions", newRoute("r", "", slices.Repeat([]string{"task"}, 101)...), 8, fanout{}, -1},
		{"many deliveries", newRoute("r", "", "publish"), 8, fanout{deliveries: 99}, 1},
		{"too many rows", newRoute("r", "", "publish"), 8, fanout{deliveries: 100}, -1},
		{"many bytes", newRoute("r", "", slices.Repeat([]string{"publish"}, 16)...), 64 << 10, fanout{}, 16},
		{"too many bytes", newRoute("r", "", slices.Repeat([]string{"publish"}, 17)...), 64 << 10, fanout{}, -1},
		{"subscriptions with many filters", newRoute("r", "", "publish"), 8, fanout{deliveries: 1, steps: meter.Slice}, 1},
		{"subscriptions with too many filters", newRoute("r", "", "publish"), 8, fanout{deliveries: 1, steps: meter.Slice + 1}, -1},
		{"subscriptions that are not in memory", newRoute("r", "", "publish"), 8, fanout{isUnknown: true}, -1},
	} {
		t.Run(c.claim, func(t *testing.T) {
			inBubble(t, nil, func(t *testing.T, b *harness) {
				b.makers()
				scripts := fakeScripts(b)
				b.Fanout = c.fanout
				b.load()
				e := sized(c.body)
				before := *e
				s := b.PlanArrival(e)
				if n := scripts.Load(); n > 0 {
					t.Errorf("got %d scripts run, want none", n)
				}
				if c.actions < 0 {
					if s != nil {
						t.Errorf("got a plan of %d actions, want none", len(s.Actions))
					}
					return
				}
				if s == nil || s.Event != e || len(s.Actions) != c.actions || s.Matched != c.actions {
					t.Fatalf("got %+v, want a plan of %d actions", s, c.actions)
				}
				if diff := cmp.Diff(before, *e); diff != "" {
					t.Errorf("the event changed (-before +after):\n%s", diff)
				}
			}, c.route)
		})
	}
}

// The source's events of other types do not go to the slow queue because of a script.
func TestEventsBesideAScriptArePlanned(t *testing.T) {
	scripted := newRoute("scripted", "push", "task")
	scripted.FilterFunction = "0s"
	inBubble(t, nil, func(t *testing.T, b *harness) {
		b.makers()
		b.load()
		if s := b.PlanArrival(newEvent("push")); s != nil {
			t.Errorf("got %+v, want no plan: a route runs a script", s)
		}
		if s := b.PlanArrival(newEvent("pull")); s == nil {
			t.Error("an event without a script: got no plan")
		}
	}, scripted, newRoute("plain", "pull", "task"))
}

func TestArrivalsAreNotPlannedWithoutWorkers(t *testing.T) {
	inBubble(t, func(c *route.Config) { c.Workers = 0 }, func(t *testing.T, b *harness) {
		b.makers()
		b.load()
		if s := b.PlanArrival(newEvent("push")); s != nil {
			t.Errorf("got %+v, want no plan: other instances process the events", s)
		}
	}, newRoute("r", "", "task"))
}

// A sender waits for the plan of its event, so planning must not wait. A plan that waited for the
// routes would never return here.
func TestPlanArrivalDoesNotBlock(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, b *harness) {
		b.makers()
		release := make(chan struct{})
		routes := b.routing[eventhook.SourceID{}]
		b.routing[eventhook.SourceID{}] = func() ([]eventhook.Route, error) { <-release; return routes() }
		if s := b.PlanArrival(newEvent("push")); s != nil || b.reads != 0 {
			t.Errorf("nothing in memory: got %+v and %d reads, want no plan and no read", s, b.reads)
		}
		loaded := make(chan error)
		go func() { loaded <- b.Load(t.Context(), eventhook.TenantID{}, eventhook.SourceID{}) }()
		synctest.Wait()
		if s := b.PlanArrival(newEvent("push")); s != nil || b.reads != 1 {
			t.Errorf("while the routes are read: got %+v and %d reads, want no plan", s, b.reads)
		}
		close(release)
		if err := <-loaded; err != nil {
			t.Fatal(err)
		}
		if s := b.PlanArrival(newEvent("push")); s == nil {
			t.Error("with the routes in memory: got no plan, want one")
		}
	}, newRoute("r", "", "task"))
}

// The clock stands still while an event is planned: the limit is a number of steps.
func TestArrivalsOverTheLimitAreNotPlanned(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, b *harness) {
		made := b.makers()
		b.load()
		much := newEvent("push")
		much.Body = costlyBody[:60<<10]
		much.Body = append(slices.Clone(much.Body), `"}`...)
		want := func(claim string, e *eventhook.Event, isPlanned bool, evaluated int) {
			t.Helper()
			s := b.PlanArrival(e)
			if (s != nil) != isPlanned || *made != evaluated {
				t.Errorf("%s: got a plan: %t, after %d evaluations; want %t after %d", claim, s != nil, *made, isPlanned, evaluated)
			}
		}
		want("a cheap event", newEvent("push"), true, 1)
		want("an event over the limit", much, false, 2)
		want("an event after it", newEvent("push"), false, 2)
		b.pass(10*time.Second - 1)
		want("nearly 10 s later", newEvent("push"), false, 2)
		b.pass(1)
		want("10 s later", newEvent("push"), true, 3)
	}, newRoute("first", "", "task"), costly("second"))
}

// The limit is one slice of steps. A larger limit would delay the senders of the batch.
func TestAnArrivalIsPlannedWithinOneSlice(t *testing.T) {
	r := newRoute("r", "", "task")
	r.Filter = []byte(`{"body.t":{"$not":{"$regex":"\\pL{0,400}!"}}}`)
	planned, left := 0, 0
	for n := 50; n <= 1600; n += 50 {
		inBubble(t, nil, func(t *testing.T, b *harness) {
			b.makers()
			b.load()
			e, m := carrying(`{"t":"`+strings.Repeat("x", n)+`"}`), meter.New(t.Context(), meter.Slice, nil)
			compile(r).Settle(m, e, nil, noon)
			s := b.PlanArrival(e)
			if (s != nil) != (m.Err() == nil) {
				t.Errorf("a body of %d bytes: got a plan: %t, want %t: %v", n, s != nil, m.Err() == nil, m.Err())
			}
			if s != nil {
				planned++
			} else {
				left++
			}
		}, r)
	}
	if planned == 0 || left == 0 {
		t.Errorf("got %d events planned and %d not planned, want both above 0", planned, left)
	}
}

func TestNoPlanIfTheShareIsUsedUpWhileSubscribersAreMatched(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, b *harness) {
		b.makers()
		b.Fanout = fanout{deliveries: 1, steps: 10}
		b.load()
		b.limiter.Bucket(eventhook.TenantID{}).Charge(meter.StepsIn(4 * time.Second))
		if s := b.PlanArrival(newEvent("push")); s != nil {
			t.Errorf("got %+v, want no plan: some subscribers were not matched", s)
		}
	}, newRoute("r", "", "publish"))
}

func TestNoPlanIfTheShareIsUsedUp(t *testing.T) {
	r := newRoute("r", "", "task")
	r.Filter = []byte(`{"body.id":7}`)
	inBubble(t, nil, func(t *testing.T, b *harness) {
		b.makers()
		b.load()
		b.limiter.Bucket(eventhook.TenantID{}).Charge(meter.StepsIn(4 * time.Second))
		if s := b.PlanArrival(newEvent("push")); s != nil {
			t.Errorf("the share is used up: got %+v, want no plan", s)
		}
		b.pass(10 * time.Millisecond)
		if s := b.PlanArrival(newEvent("push")); s == nil {
			t.Error("10 ms later: got no plan, want one: the source is not slow")
		}
	}, r)
}
