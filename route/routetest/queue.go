// Package routetest checks implementations of the interfaces by which events and their
// plans are stored: route.Queue and ingest.Store.
package routetest

import (
	"context"
	"testing"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/effects"
	"github.com/eventhook/eventhook/route"
)

// Store is the store under test: outbound.EffectStore and route.Queue.
type Store interface {
	route.Queue
	Accept(ctx context.Context, batch []*effects.Arrival) error
}

// Queue is an empty Store under test, with access to its environment.
type Queue struct {
	Store
	Tenant     eventhook.TenantID
	Source     eventhook.SourceID
	Route      eventhook.RouteID                              // a route of the source, with two http targets
	Change     func()                                         // changes the tenant's configuration, which increments its generation
	Generation func() int64                                   // returns the current generation
	Status     func(e *eventhook.Event) eventhook.EventStatus // returns the stored status of an event
	// EndRequest settles a delivery of the route: it was sent, or it is dead.
	EndRequest func(d *eventhook.Delivery, isSent bool)
	Now        func() time.Time
	Advance    func(by time.Duration)
}

// lease is the duration of leases in these cases.
const lease = 30 * time.Second

// QueueCases are the contract of Store. Each case needs a new queue.
var QueueCases = map[string]func(t *testing.T, q Queue){
	"due events are claimed once, oldest first":                       claimedOnce,
	"an event whose lease expires is claimed again":                   leaseEnds,
	"an event stored with a lease is claimed after the lease expires": arrivesLeased,
	"an event is stored with its plan":                                storedWithPlan,
	"a stale plan is not stored":                                      stalePlan,
	"a duplicate has no effect":                                       duplicate,
	"a settled event is not claimed again":                            settledOnce,
	"an event that failed is due at its retry":                        retried,
	"a settlement without a lease changes nothing":                    leaseLost,
	"a stale settlement changes nothing":                              staleSettlement,
	"a released event is due at its NextRetryAt":                      released,
	"a release without a lease changes nothing":                       releasedLate,
	"actions of earlier attempts are kept":                            keepsActions,
	"an event waits for its requests":                                 waitsForRequests,
	"an event waits for the requests of earlier attempts":             waitsForEarlier,
	"a request that ends before its event is settled ends it":         endsBefore,
	"an event with a dead request is dead":                            deadRequest,
}

// event returns a new event.
func (q Queue) event() *eventhook.Event {
	return &eventhook.Event{
		ID: eventhook.NewID[eventhook.Event](q.Now()), TenantID: q.Tenant, SourceID: q.Source, Origin: eventhook.OriginSource, EventType: "push",
		ContentType: "application/json", BodySize: 2, Payload: eventhook.Payload{Headers: []byte("A: b\r\n"), Body: []byte("{}")},
	}
}

// Targets of plan.
const (
	task    = "task"    // creates an execution
	request = "request" // creates a delivery
	fails   = "fails"
)

// plan returns a settlement of the current generation with an action for each target.
func (q Queue) plan(e *eventhook.Event, targets ...string) *effects.Settlement {
	s := &effects.Settlement{Event: e, Matched: len(targets), Retry: eventhook.EventRetry, Generation: q.Generation()}
	for i, target := range targets {
		s.Actions = append(s.Actions, q.action(e, i, target))
	}
	return s
}

func (q Queue) action(e *eventhook.Event, index int, target string) effects.PlannedAction {
	a := effects.PlannedAction{Action: eventhook.Action{
		ID: eventhook.ActionIDOf(e.ID, q.Route, index), EventID: e.ID, RouteID: q.Route, RouteName: "all", TargetIndex: index,
		TargetType: target, Attempts: 1, StartedAt: q.Now(),
	}}
	switch target {
	case task:
		a.Effect.Execution = &eventhook.Execution{
			ID: eventhook.NewID[eventhook.Execution](q.Now()), TenantID: e.TenantID, EventID: e.ID, Type: eventhook.Task, Queue: "ci", Kind: "build", MaxAttempts: 3,
		}
	case request:
		a.TargetType = "http"
		to := eventhook.Destination{TenantID: e.TenantID, RouteID: q.Route, TargetIndex: index}.ID()
		a.Effect.Request = &effects.Request{Delivery: &eventhook.Delivery{
			ID: eventhook.DeliveryIDOf(e.ID, to), TenantID: e.TenantID, DestinationID: to, RouteID: q.Route, TargetIndex: index,
			EventID: e.ID, EventType: e.EventType, Status: eventhook.DeliveryPending, Event: e,
		}}
	case fails:
		a.Failure = "nothing at body.id"
	}
	return a
}

// again returns the settlement of a retried event, without the targets whose actions are done.
func (q Queue) again(t *testing.T, e *eventhook.Event, targets ...string) *effects.Settlement {
	t.Helper()
	s := q.plan(e, targets...)
	s.Prior = q.actions(t, e)
	var left []effects.PlannedAction
	for _, a := range s.Actions {
		before := at(s.Prior, a.TargetIndex)
		switch {
		case before != nil && before.Status == eventhook.ActionPending:
			s.OpenRequests++
		case before == nil || before.Status == eventhook.ActionFailed:
			if before != nil {
				a.Attempts += before.Attempts
			}
			left = append(left, a)
		}
	}
	s.Actions = left
	return s
}

func at(list []eventhook.Action, index int) *eventhook.Action {
	for i := range list {
		if list[i].TargetIndex == index {
			return &list[i]
		}
	}
	return nil
}

func (q Queue) accept(t *testing.T, batch ...*effects.Arrival) {
	t.Helper()
	if err := q.Accept(t.Context(), batch); err != nil {
		t.Fatalf("Accept: %v", err)
	}
}

// due stores n events that are due now.
func (q Queue) due(t *testing.T, n int) {
	t.Helper()
	for range n {
		q.accept(t, &effects.Arrival{Event: q.event()})
		q.Advance(time.Millisecond)
	}
}

func (q Queue) claim(t *testing.T, limit int) []*eventhook.Event {
	t.Helper()
	list, err := q.ClaimEvents(t.Context(), limit, lease)
	if err != nil {
		t.Fatalf("ClaimEvents: %v", err)
	}
	return list
}

// held stores an event, claims it and returns it.
func (q Queue) held(t *testing.T) *eventhook.Event {
	t.Helper()
	q.due(t, 1)
	return q.claimOne(t)
}

func (q Queue) claimOne(t *testing.T) *eventhook.Event {
	t.Helper()
	list := q.claim(t, 10)
	if len(list) != 1 {
		t.Fatalf("claimed %d events, want 1", len(list))
	}
	return list[0]
}

func (q Queue) settle(t *testing.T, batch ...*effects.Settlement) (unsettled []*effects.Settlement) {
	t.Helper()
	unsettled, err := q.SettleEvents(t.Context(), batch)
	if err != nil {
		t.Fatalf("SettleEvents: %v", err)
	}
	return unsettled
}

// wantSettled settles a batch and requires that all of it is settled.
func (q Queue) wantSettled(t *testing.T, batch ...*effects.Settlement) {
	t.Helper()
	if unsettled := q.settle(t, batch...); len(unsettled) > 0 {
		t.Fatalf("got %d unsettled, want none", len(unsettled))
	}
}

func (q Queue) wantStatus(t *testing.T, claim string, e *eventhook.Event, want eventhook.EventStatus) {
	t.Helper()
	if got := q.Status(e); got != want {
		t.Errorf("%s: got %q stored, want %q", claim, got, want)
	}
}

// wantNoneDue requires that no event becomes due within a day.
func (q Queue) wantNoneDue(t *testing.T) {
	t.Helper()
	q.Advance(24 * time.Hour)
	if list := q.claim(t, 10); len(list) > 0 {
		t.Errorf("claimed %d events, want none", len(list))
	}
}

func (q Queue) actions(t *testing.T, e *eventhook.Event) []eventhook.Action {
	t.Helper()
	all, err := q.EventActions(t.Context(), []*eventhook.Event{e})
	if err != nil {
		t.Fatalf("EventActions: %v", err)
	}
	return all[e.ID]
}

// wantActions compares the states of an event's actions, by target.
func (q Queue) wantActions(t *testing.T, claim string, e *eventhook.Event, want ...eventhook.ActionStatus) {
	t.Helper()
	list := q.actions(t, e)
	if len(list) != len(want) {
		t.Errorf("%s: got %d actions, want %d", claim, len(list), len(want))
		return
	}
	for i, status := range want {
		if a := at(list, i); a == nil || a.Status != status || a.EventID != e.ID || a.RouteID != q.Route || a.RouteName != "all" {
			t.Errorf("%s, target %d: got %+v, want status %s", claim, i, a, status)
		}
	}
}
