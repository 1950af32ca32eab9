package route_test

import (
	"strings"
	"testing"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/effects"
)

// arrive plans an event and stores it, as package ingest does.
func (b *harness) arrive(e *eventhook.Event, between func()) *effects.Arrival {
	b.t.Helper()
	a := &effects.Arrival{Event: e, Plan: b.PlanArrival(e)}
	if between != nil {
		between()
	}
	if err := b.Accept(b.t.Context(), []*effects.Arrival{a}); err != nil {
		b.t.Fatal(err)
	}
	b.Processor.Planned([]*effects.Arrival{a})
	return a
}

// versions returns the routes of the tenant's generation for each source.
func (b *harness) versions(all ...[]eventhook.Route) {
	b.routing[eventhook.SourceID{}] = func() (routes []eventhook.Route, _ error) {
		b.set(func(q *queue) { routes = all[q.generation[eventhook.TenantID{}]] })
		return routes, nil
	}
}

func namesOf(actions []eventhook.Action) string {
	var names []string
	for _, a := range actions {
		names = append(names, a.RouteName)
	}
	return strings.Join(names, " ")
}

func TestAnEventIsStoredWithItsPlan(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, b *harness) {
		b.makers()
		b.run()
		b.load()
		a := b.arrive(newEvent("push"), nil)
		b.pass(2 * lease)
		b.wantStatuses(states{eventhook.EventDelivered: 1})
		if !a.IsPlanned() || b.planned != 1 || len(b.settles) != 0 || namesOf(b.rows[b.order[0]].actions) != "r" {
			t.Errorf("got planned %t, %d reported, %d settles; want it reported once and no settle", a.IsPlanned(), b.planned, len(b.settles))
		}
	}, newRoute("r", "", "task"))
}

// An event is planned by routes of one generation only.
func TestRoutesThatChangeBetweenPlanningAndCommit(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, b *harness) {
		b.makers()
		b.versions([]eventhook.Route{newRoute("a1", "", "task"), newRoute("b1", "", "task")},
			[]eventhook.Route{newRoute("a2", "", "task"), newRoute("b2", "", "task")})
		b.run()
		b.load()
		a := b.arrive(newEvent("push"), func() { b.change(eventhook.TenantID{}) }) // without a notification
		if a.IsPlanned() || b.planned != 0 {
			t.Errorf("got planned %t, %d reported; want a stale plan", a.IsPlanned(), b.planned)
		}
		b.pass(0)
		b.wantStatuses(states{eventhook.EventDelivered: 1})
		if got := namesOf(b.rows[b.order[0]].actions); got != "a2 b2" || b.settled != 1 || len(b.settles) != 1 {
			t.Errorf("got the actions of %q, reported %d times after %d settles; want a2 b2, reported once", got, b.settled, len(b.settles))
		}
		if s := b.PlanArrival(newEvent("push")); s == nil || s.Generation != 1 {
			t.Errorf("the next event: got %+v, want a plan by the new routes", s)
		}
	})
}

func TestAStaleSettlementIsPlannedAgain(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, b *harness) {
		b.makers()
		b.versions([]eventhook.Route{newRoute("a1", "", "task"), newRoute("b1", "", "task")}, []eventhook.Route{newRoute("a2", "", "task")},
			[]eventhook.Route{newRoute("a3", "", "task"), newRoute("b3", "", "task")})
		settles := 0
		b.settling = func([]*effects.Settlement) {
			if settles++; settles <= 2 {
				b.change(eventhook.TenantID{})
			}
		}
		b.run()
		b.handOver(1)
		b.pass(time.Second)
		b.wantStatuses(states{eventhook.EventDelivered: 1})
		if got := namesOf(b.rows[b.order[0]].actions); got != "a3 b3" || b.settled != 1 || settles != 3 || b.stale != 2 {
			t.Errorf("got the actions of %q, reported %d times after %d settles, and %d stale plans; want a3 b3, reported once after 3, and 2", got, b.settled, settles, b.stale)
		}
		if log := b.log.String(); strings.Contains(log, "lease ran out") {
			t.Errorf("got the log %s, want no lost lease", log)
		}
	})
}

func TestAStalePlanDoesNotEvictNewerRoutes(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, b *harness) {
		b.makers()
		b.load()
		plan := func() *effects.Arrival {
			e := newEvent("push")
			return &effects.Arrival{Event: e, Plan: b.PlanArrival(e)}
		}
		first, second := plan(), plan()
		b.change(eventhook.TenantID{})
		first.Plan.IsStale, second.Plan.IsStale = true, true
		b.Processor.Planned([]*effects.Arrival{first})
		if s := b.PlanArrival(newEvent("push")); s != nil {
			t.Errorf("after a stale plan: got a plan of generation %d, want none: the routes are evicted", s.Generation)
		}
		b.load()
		b.Processor.Planned([]*effects.Arrival{second})
		if s := b.PlanArrival(newEvent("push")); s == nil || b.reads != 2 {
			t.Errorf("after another stale plan of the same routes: got %+v and %d reads, want a plan of the newer routes", s, b.reads)
		}
	}, newRoute("r", "", "task"))
}

func TestAfterARefusedPlanTheSourceUsesTheSlowQueue(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, b *harness) {
		b.makers()
		b.load()
		e := newEvent("push")
		e.Status = eventhook.EventPending
		b.Processor.Planned([]*effects.Arrival{{Event: e, Plan: b.PlanArrival(e), IsPlanRefused: true}})
		if s := b.PlanArrival(newEvent("push")); s != nil || b.planned != 0 {
			t.Errorf("got %+v and %d reported, want no plan", s, b.planned)
		}
		b.pass(10 * time.Second)
		if s := b.PlanArrival(newEvent("push")); s == nil {
			t.Error("10 s later: got no plan, want one")
		}
	}, newRoute("r", "", "task"))
}

func TestOnlyStoredPlansAreReported(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, b *harness) {
		b.makers()
		b.load()
		var batch []*effects.Arrival
		for _, status := range []eventhook.EventStatus{eventhook.EventDelivered, eventhook.EventDuplicate, "", eventhook.EventProcessing} {
			e := newEvent("push")
			s := b.PlanArrival(e)
			e.Status = status
			batch = append(batch, &effects.Arrival{Event: e, Plan: s})
		}
		batch = append(batch, &effects.Arrival{Event: newEvent("push")})
		b.Processor.Planned(batch)
		if b.planned != 2 {
			t.Errorf("got %d reported, want 2: the delivered event and the one with open requests", b.planned)
		}
	}, newRoute("r", "", "task"))
}
