package route

import (
	"errors"
	"fmt"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/effects"
	"github.com/eventhook/eventhook/internal/filter"
	"github.com/eventhook/eventhook/internal/meter"
	"github.com/eventhook/eventhook/internal/panics"
	"github.com/eventhook/eventhook/internal/payload"
)

// Effector is a compiled target. Package targets implements it.
type Effector interface {
	Effect(e *eventhook.Event, v *payload.View, now time.Time) (effects.Effect, error)
}

// Program holds the compiled routes of a source. It is immutable but for slowUntil, and safe for
// concurrent use.
type Program struct {
	generation         int64 // of the tenant's configuration
	retry              eventhook.RetryPolicy
	routes             []compiledRoute
	types              filter.Types
	fields             filter.Fields
	runsScripts        bool
	hasProcessorRoutes bool         // whether isForProcessor is set for a route
	memory             int          // approximate size of the compiled filters, in bytes
	slowUntil          atomic.Int64 // Unix nanoseconds; until then, events go to the slow queue at once
	run                runner
	panicked           func(e *eventhook.Event, at string, reason any, stack []byte) // may be nil
}

type compiledRoute struct {
	conditions
	route          eventhook.Route
	targets        []Effector
	problems       []error // for each target, why it cannot be compiled
	isForProcessor bool    // runs a script or settles a promise
}

// Compile compiles routes in their order of evaluation. It always succeeds, since an error must
// neither let all events pass nor lose events silently:
//
//   - A filter or transform that does not compile fails the actions of its route. Check prevents it.
//   - A target that does not compile or that panics fails its own actions only. Validation prevents
//     it. The failure is permanent, unless the type of the target is unknown: an instance of a newer
//     version may know it.
func Compile(retry eventhook.RetryPolicy, routes []eventhook.Route, target func(eventhook.Target) (Effector, error)) *Program {
	p := &Program{retry: retry.WithDefaults(eventhook.EventRetry), run: runForEvent}
	var types [][]string
	for _, r := range routes {
		c := compiledRoute{route: r, conditions: p.conditionsOf(&r)}
		c.isForProcessor = c.runsScripts()
		for i, t := range r.Targets {
			t.RouteID, t.Index = r.ID, i
			effector, err := compileTarget(t, target)
			c.targets = append(c.targets, effector)
			c.problems = append(c.problems, err)
			c.isForProcessor = c.isForProcessor || t.Type == eventhook.TargetPromise
		}
		p.runsScripts = p.runsScripts || c.runsScripts()
		p.hasProcessorRoutes = p.hasProcessorRoutes || c.isForProcessor
		p.routes, types = append(p.routes, c), append(types, r.FilterEventTypes)
	}
	p.types = filter.NewTypeIndex(types)
	return p
}

// isForProcessor reports whether a route that accepts events of a type runs a script or settles a
// promise. Such an event is not planned before it is stored.
func (p *Program) isForProcessor(eventType string) (needs bool) {
	if !p.hasProcessorRoutes {
		return false
	}
	p.types.Each(eventType, func(i int) { needs = needs || p.routes[i].isForProcessor })
	return needs
}

// needsScripts reports whether a route that accepts events of a type runs a script.
func (p *Program) needsScripts(eventType string) (needs bool) {
	if !p.runsScripts {
		return false
	}
	p.types.Each(eventType, func(i int) { needs = needs || p.routes[i].runsScripts() })
	return needs
}

// Limits of compiled routes.
const (
	maxMemory       = 64 << 20 // bytes for the filters of one source's routes
	memoryPerWeight = 16 << 10 // bytes that count as 1 toward the capacity of the cache
)

// conditionsOf compiles a route's filters and adds their size. Beyond maxMemory it compiles no more
// filters, and the actions of such a route fail.
func (p *Program) conditionsOf(r *eventhook.Route) conditions {
	hasFilters := filter.IsSet(r.Filter) || r.FilterExpression != ""
	if hasFilters && p.memory > maxMemory {
		return conditions{route: r.Name, transform: r.Transform,
			broken: &problem{text: fmt.Sprintf("the filters of the source's routes take more than %d bytes when compiled", maxMemory)}}
	}
	c := compileConditions(r, &p.fields)
	p.memory += c.memory()
	return c
}

// weight is the program's weight in the cache.
func (p *Program) weight() int { return 1 + p.memory/memoryPerWeight }

var errPanicked = errors.New("failed unexpectedly; the gateway's log has the reason")

func compileTarget(t eventhook.Target, target func(eventhook.Target) (Effector, error)) (x Effector, err error) {
	defer func() {
		if recover() != nil {
			panics.Count(panics.Route)
			x, err = nil, errPanicked
		}
	}()
	return target(t)
}

// Settle matches an event and plans the actions of its routes, except prior actions that need not
// be repeated. The meter counts the work. If the meter stops the evaluation, the actions of each
// route that could not be evaluated fail.
func (p *Program) Settle(m *meter.Meter, e *eventhook.Event, prior []eventhook.Action, now time.Time) *effects.Settlement {
	settlement := &effects.Settlement{Event: e, Retry: p.retry, Generation: p.generation, Prior: prior}
	var s *subject
	p.types.Each(e.EventType, func(i int) {
		if s == nil {
			s = newSubject(m, e, &p.fields, p.run)
		}
		p.settleRoute(settlement, &p.routes[i], s, now)
	})
	if s != nil {
		s.release()
	}
	return settlement
}

// settleRoute plans the actions of one route if the route matches.
func (p *Program) settleRoute(settlement *effects.Settlement, c *compiledRoute, s *subject, now time.Time) {
	matched, problem := p.matchRoute(c, s, nil)
	if !matched && problem == nil {
		return
	}
	settlement.Matched += len(c.targets)
	view := s.View
	for index := range c.targets {
		before := priorAction(settlement, c.route.ID, index)
		if before != nil && isDone(before) {
			if before.Status == eventhook.ActionPending {
				settlement.OpenRequests++
			}
			continue
		}
		if view == s.View && problem == nil {
			view, problem = p.transformedView(c, s)
		}
		a := p.planAction(c, s, view, problem, index, now)
		if before != nil {
			a.Attempts += before.Attempts
		}
		addEffectBytes(settlement, &a)
		settlement.Actions = append(settlement.Actions, a)
	}
}

// matchRoute evaluates a route's filters. A panic becomes a problem of this route only.
func (p *Program) matchRoute(c *compiledRoute, s *subject, why *filter.Reasons) (matched bool, problem *problem) {
	defer func() {
		if reason := recover(); reason != nil {
			panics.Count(panics.Route)
			matched, problem = false, p.panicProblem(s.Event, fmt.Sprintf("route %s", c.route.ID), reason)
		}
	}()
	return c.match(s, why)
}

// transformedView returns the view of the event that a route's targets get: the event itself, or
// with a transform the event with the transform's result.
func (p *Program) transformedView(c *compiledRoute, s *subject) (view *payload.View, problem *problem) {
	if c.transform == nil {
		return s.View, nil
	}
	defer func() {
		if reason := recover(); reason != nil {
			panics.Count(panics.Route)
			view, problem = s.View, p.panicProblem(s.Event, fmt.Sprintf("route %s transform", c.route.ID), reason)
		}
	}()
	out, problem := s.transform(c.transform)
	if stopped := s.stopped(c.route.Name, "transform"); stopped != nil {
		return s.View, stopped
	}
	if problem != nil {
		problem.transient = problem.transient || c.transform.Retry
		return s.View, problem
	}
	return s.View.WithTransformed(out), nil
}

// panicProblem reports a panic and returns a problem without its details, which could quote the
// webhook.
func (p *Program) panicProblem(e *eventhook.Event, at string, reason any) *problem {
	if p.panicked != nil {
		p.panicked(e, at, reason, debug.Stack())
	}
	return &problem{text: errPanicked.Error()}
}

func (p *Program) planAction(c *compiledRoute, s *subject, view *payload.View, problem *problem, index int, now time.Time) effects.PlannedAction {
	e := s.Event
	a := effects.PlannedAction{Action: eventhook.Action{
		ID:          eventhook.ActionIDOf(e.ID, c.route.ID, index),
		EventID:     e.ID,
		RouteID:     c.route.ID,
		RouteName:   c.route.Name,
		TargetIndex: index,
		TargetType:  c.route.Targets[index].Type,
		Attempts:    1,
		StartedAt:   now,
	}}
	if problem != nil {
		a.Failure, a.Permanent = problem.text, !problem.transient
		return a
	}
	err := c.problems[index]
	if err == nil {
		a.Effect, err = p.effectOf(c, e, view, index, now)
	}
	if err != nil {
		a.Failure, a.Permanent = fmt.Sprintf("target %d: %s", index+1, err), !errors.Is(err, eventhook.ErrUnknownTarget)
	}
	if s.Meter.Err() != nil {
		stopped := s.stopped(c.route.Name, fmt.Sprintf("target %d", index+1))
		a.Effect, a.Failure, a.Permanent = effects.Effect{}, stopped.text, !stopped.transient
	}
	if a.Effect.Request != nil {
		a.Effect.Request.Delivery = newDelivery(e, c.route.ID, index)
	}
	return a
}

// newDelivery returns the delivery as which a request to a route's target is sent.
func newDelivery(e *eventhook.Event, route eventhook.RouteID, index int) *eventhook.Delivery {
	to := eventhook.Destination{TenantID: e.TenantID, RouteID: route, TargetIndex: index}.ID()
	return &eventhook.Delivery{ID: eventhook.DeliveryIDOf(e.ID, to), TenantID: e.TenantID, DestinationID: to, RouteID: route, TargetIndex: index,
		EventID: e.ID, EventType: e.EventType, Status: eventhook.DeliveryPending, Event: e}
}

// effectOf returns the effect of a target. A panic becomes an error of this target, so that one
// webhook cannot end the process and the work for other tenants.
func (p *Program) effectOf(c *compiledRoute, e *eventhook.Event, view *payload.View, index int, now time.Time) (effect effects.Effect, err error) {
	defer func() {
		if reason := recover(); reason != nil {
			panics.Count(panics.Route)
			effect, err = effects.Effect{}, p.panicProblem(e, fmt.Sprintf("route %s target %d", c.route.ID, index+1), reason)
		}
	}()
	return c.targets[index].Effect(e, view, now)
}

// priorAction returns the action of an earlier attempt for a target of a route, nil if there is
// none.
func priorAction(s *effects.Settlement, route eventhook.RouteID, index int) *eventhook.Action {
	for i := range s.Prior {
		if a := &s.Prior[i]; a.RouteID == route && a.TargetIndex == index {
			return a
		}
	}
	return nil
}

// isDone reports whether an action need not be planned again. A pending action has an open
// delivery.
func isDone(a *eventhook.Action) bool { return a.Status != eventhook.ActionFailed }
