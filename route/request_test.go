package route_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/effects"
	"github.com/eventhook/eventhook/route"
)

func TestARequestIsADelivery(t *testing.T) {
	r, e := newRoute("r", "", "task", "request"), newEvent("push")
	e.TenantID = eventhook.TenantID{slowTenant}
	program := route.Compile(eventhook.RetryPolicy{}, []eventhook.Route{r}, func(t eventhook.Target) (route.Effector, error) {
		return maker{kindOf(t), func() {}}, nil
	})
	first, second := program.Settle(nil, e, nil, noon), program.Settle(nil, e, nil, noon)
	got := first.Actions[1].Effect.Request.Delivery
	to := eventhook.Destination{TenantID: e.TenantID, RouteID: r.ID, TargetIndex: 1}.ID()
	want := &eventhook.Delivery{ID: eventhook.DeliveryIDOf(e.ID, to), TenantID: e.TenantID, DestinationID: to, RouteID: r.ID, TargetIndex: 1,
		EventID: e.ID, EventType: "push", Status: eventhook.DeliveryPending, Event: e}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("delivery (-want +got):\n%s", diff)
	}
	if again := second.Actions[1].Effect.Request.Delivery.ID; again != got.ID {
		t.Errorf("planned again: got delivery %s, want the same, %s", again, got.ID)
	}
}

func TestTheOutputOfATransformCountsAsEffectBytes(t *testing.T) {
	r := newRoute("r", "", "request")
	r.Transform = &eventhook.Transform{Type: eventhook.TransformJMESPath, Expression: "@"}
	s := route.Compile(eventhook.RetryPolicy{}, []eventhook.Route{r}, func(eventhook.Target) (route.Effector, error) {
		return maker{"request", func() {}}, nil
	}).Settle(nil, carrying(`"`+strings.Repeat("x", 1000)+`"`), nil, noon)
	if s.EffectBytes != 1002 {
		t.Errorf("got %d bytes, want the 1002 of the body that is stored", s.EffectBytes)
	}
}

func TestActionsOfEarlierAttempts(t *testing.T) {
	r := newRoute("r", "", "request", "task", "request")
	program := route.Compile(eventhook.RetryPolicy{}, []eventhook.Route{r}, func(t eventhook.Target) (route.Effector, error) {
		return maker{kindOf(t), func() {}}, nil
	})
	before := func(index int, status eventhook.ActionStatus, attempts int) eventhook.Action {
		return eventhook.Action{RouteID: r.ID, TargetIndex: index, Status: status, Attempts: attempts, IsRequest: index != 1}
	}
	for _, c := range []struct {
		claim  string
		prior  []eventhook.Action
		open   int
		again  map[int]int // attempts by target that is planned again
		status eventhook.EventStatus
	}{
		{"none", nil, 0, map[int]int{0: 1, 1: 1, 2: 1}, eventhook.EventProcessing},
		{"an open request keeps the event processing", []eventhook.Action{before(0, "pending", 2), before(1, "failed", 3), before(2, "success", 1)}, 1,
			map[int]int{1: 4}, eventhook.EventProcessing},
		{"a dead request is planned again", []eventhook.Action{before(0, "failed", 5), before(1, "success", 1), before(2, "success", 1)}, 0,
			map[int]int{0: 6}, eventhook.EventProcessing},
		{"all actions are finished", []eventhook.Action{before(0, "success", 1), before(1, "skipped", 1), before(2, "success", 1)}, 0, map[int]int{}, eventhook.EventDelivered},
	} {
		s := program.Settle(nil, newEvent("push"), c.prior, noon)
		got := map[int]int{}
		for _, a := range s.Actions {
			got[a.TargetIndex] = a.Attempts
		}
		conclude(s, noon)
		if diff := cmp.Diff(c.again, got); diff != "" || s.OpenRequests != c.open || s.Status != c.status || s.Matched != 3 {
			t.Errorf("%s: got %d open, %s, %d matched; want %d, %s, 3; attempts (-want +got):\n%s", c.claim, s.OpenRequests, s.Status, s.Matched, c.open, c.status, diff)
		}
	}
}

func TestAnEventWaitsForItsRequests(t *testing.T) {
	for _, c := range []struct {
		claim string
		ends  []eventhook.ActionStatus
		want  eventhook.EventStatus
	}{
		{"both are sent", []eventhook.ActionStatus{"success", "success"}, eventhook.EventDelivered},
		{"one is sent", []eventhook.ActionStatus{"success"}, eventhook.EventProcessing},
		{"one is dead", []eventhook.ActionStatus{"success", "failed"}, eventhook.EventDead},
	} {
		t.Run(c.claim, func(t *testing.T) {
			inBubble(t, nil, func(t *testing.T, b *harness) {
				b.makers()
				var requests []*eventhook.Delivery
				b.settling = func(batch []*effects.Settlement) {
					for _, a := range batch[0].Actions {
						requests = append(requests, a.Effect.Request.Delivery)
					}
				}
				b.run()
				b.handOver(1)
				b.pass(10 * lease)
				b.wantStatuses(states{eventhook.EventProcessing: 1})
				for i, status := range c.ends {
					b.endRequest(requests[i], status)
				}
				b.pass(10 * lease)
				b.wantStatuses(states{c.want: 1})
				if b.claims == 0 || len(b.settles) != 1 {
					t.Errorf("got %d settles, want 1: nothing claims an event that waits for its requests", len(b.settles))
				}
			}, newRoute("r", "", "request", "request"))
		})
	}
}

// A retry of the event does not repeat an open request, but repeats a dead one.
func TestARetryRepeatsOnlyDeadRequests(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, b *harness) {
		b.makers()
		b.run()
		b.handOver(1)
		b.pass(0)
		b.wantStatuses(states{eventhook.EventFailed: 1})
		var repeated []*eventhook.Delivery
		b.set(func(q *queue) {
			q.settling = func(batch []*effects.Settlement) {
				for _, a := range batch[0].Actions {
					if a.Effect.Request != nil {
						repeated = append(repeated, a.Effect.Request.Delivery)
					}
				}
			}
		})
		b.pass(time.Minute) // the first two retries
		if len(b.settles) != 3 || len(repeated) != 0 {
			t.Fatalf("got %d settles with %d repeated requests, want 3 with none: the request is open", len(b.settles), len(repeated))
		}
		id := b.order[0]
		of := b.rows[id].actions[0].RouteID
		to := eventhook.Destination{RouteID: of}.ID()
		b.endRequest(&eventhook.Delivery{EventID: id, RouteID: of}, eventhook.ActionFailed)
		b.replay(id)
		b.pass(time.Second)
		if len(repeated) != 1 || repeated[0].ID != eventhook.DeliveryIDOf(id, to) {
			t.Errorf("got %+v repeated, want the dead request", repeated)
		}
	}, newRoute("r", "", "request", "later version"))
}
