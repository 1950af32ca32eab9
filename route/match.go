package route

import (
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/effects"
	"github.com/eventhook/eventhook/internal/filter"
	"github.com/eventhook/eventhook/internal/meter"
	"github.com/eventhook/eventhook/internal/payload"
)

// Effector is what a compiled target offers; package targets has them.
type Effector interface {
	Effect(e *eventhook.Event, v *payload.View, now time.Time) (effects.Effect, error)
}

// Program is a source's routes, compiled once and shared: matching is pure
// and safe for concurrent use.
type Program struct {
	generation  int64 // of the tenant's configuration
	retry       eventhook.RetryPolicy
	routes      []compiled
	types       filter.Types
	fields      filter.Fields
	runsScripts bool
	memory      int          // about how many bytes the conditions hold
	slowUntil   atomic.Int64 // in Unix nanoseconds: an event needed the slow path lately
	run         runner
	panicked    func(e *eventhook.Event, at string, reason any, stack []byte) // may be nil
}

type compiled struct {
	conditions
	route    eventhook.Route
	targets  []Effector
	problems []error // per target, why it cannot be compiled
}

// Compile makes a program of routes in their order of evaluation. A filter or
// a transform that cannot be compiled, which Check prevents, fails the actions
// of its route: it must not let everything pass, nor lose events without a
// word. A target that cannot be compiled, which validation prevents, or that
// panics, fails its own actions and no others: for good, unless its type is
// unknown, which an instance of a later version may know when it is tried again.
func Compile(retry eventhook.RetryPolicy, routes []eventhook.Route, target func(eventhook.Target) (Effector, error)) *Program {
	p := &Program{retry: retry.WithDefaults(eventhook.EventRetry), run: runAccepted}
	var types [][]string
	for _, r := range routes {
		c := compiled{route: r, conditions: p.conditionsOf(&r)}
		for i, t := range r.Targets {
			t.RouteID, t.Index = r.ID, i
			effector, err := compileTarget(t, target)
			c.targets = append(c.targets, effector)
			c.problems = append(c.problems, err)
		}
		p.runsScripts = p.runsScripts || c.runScripts()
		p.routes, types = append(p.routes, c), append(types, r.FilterEventTypes)
	}
	p.types = filter.NewTypeIndex(types)
	return p
}

// isForProcessor reports whether a route that may take an event of a type runs a script
// or settles a promise: such an event is not planned before it is stored.
func (p *Program) isForProcessor(eventType string) (is bool) {
	p.types.Each(eventType, func(i int) { is = is || p.routes[i].runScripts() || p.routes[i].settlesPromise() })
	return is
}

// settlesPromise reports whether a target of the route settles a promise.
func (c *compiled) settlesPromise() bool {
	return slices.ContainsFunc(c.route.Targets, func(t eventhook.Target) bool { return t.Type == "promise" })
}

// needsScripts reports whether an event of a type may have a script run for it.
func (p *Program) needsScripts(eventType string) (needs bool) {
	if !p.runsScripts {
		return false
	}
	p.types.Each(eventType, func(i int) { needs = needs || p.routes[i].runScripts() })
	return needs
}

// Bounds of compiled routes.
const (
	mostMemory  = 64 << 20 // bytes that the conditions of one source's routes hold
	usualMemory = 16 << 10 // for which a source weighs 1 in the cache
)

// conditionsOf compiles a route's filters and counts what they hold. Beyond the
// bound nothing more is compiled: such routes fail their actions.
func (p *Program) conditionsOf(r *eventhook.Route) conditions {
	hasFilters := filter.IsSet(r.Filter) || r.FilterExpression != ""
	if hasFilters && p.memory > mostMemory {
		return conditions{route: r.Name, transform: r.Transform,
			broken: &problem{text: fmt.Sprintf("the filters of the source's routes take more than %d bytes when compiled", mostMemory)}}
	}
	c := compileConditions(r, &p.fields)
	p.memory += c.memory()
	return c
}

// weight is what the program weighs in the cache.
func (p *Program) weight() int { return 1 + p.memory/usualMemory }

var errPanicked = errors.New("failed unexpectedly; the gateway's log has the reason")

func compileTarget(t eventhook.Target, target func(eventhook.Target) (Effector, error)) (x Effector, err error) {
	defer func() {
		if recover() != nil {
			x, err = nil, errPanicked
		}
	}()
	return target(t)
}

// Settle matches an event and plans the actions of its routes, except prior ones
// that need not be done again. The meter counts the work. Once it has stopped the
// evaluation, the actions of each route that could not be evaluated fail.
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

// settleRoute plans what one route does, if it matches.
func (p *Program) settleRoute(settlement *effects.Settlement, c *compiled, s *subject, now time.Time) {
	matched, problem := p.judge(c, s, nil)
	if !matched && problem == nil {
		return
	}
	settlement.Matched += len(c.targets)
	view := s.View
	for index := range c.targets {
		before := prior(settlement, c.route.ID, index)
		if before != nil && isDone(before) {
			if before.Status == eventhook.ActionPending {
				settlement.OpenRequests++
			}
			continue
		}
		if view == s.View && problem == nil {
			view, problem = p.given(c, s)
		}
		a := p.plan(c, s, view, problem, index, now)
		if before != nil {
			a.Attempts += before.Attempts
		}
		weigh(settlement, &a)
		settlement.Actions = append(settlement.Actions, a)
	}
}

// judge asks a route's filters. One that panics over what somebody sent is a
// problem of its route alone.
func (p *Program) judge(c *compiled, s *subject, why *filter.Reasons) (matched bool, problem *problem) {
	defer func() {
		if reason := recover(); reason != nil {
			matched, problem = false, p.caught(s.Event, fmt.Sprintf("route %s", c.route.ID), reason)
		}
	}()
	return c.judge(s, why)
}

// given is what a route's targets look at: the event or, with a transform, the
// event with something else to hand over.
func (p *Program) given(c *compiled, s *subject) (view *payload.View, problem *problem) {
	if c.transform == nil {
		return s.View, nil
	}
	defer func() {
		if reason := recover(); reason != nil {
			view, problem = s.View, p.caught(s.Event, fmt.Sprintf("route %s transform", c.route.ID), reason)
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

// caught reports a panic and makes a bland problem of it.
func (p *Program) caught(e *eventhook.Event, at string, reason any) *problem {
	if p.panicked != nil {
		p.panicked(e, at, reason, debug.Stack())
	}
	return &problem{text: errPanicked.Error()}
}

func (p *Program) plan(c *compiled, s *subject, view *payload.View, problem *problem, index int, now time.Time) effects.PlannedAction {
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
		a.Effect, err = p.effect(c, e, view, index, now)
	}
	if err != nil {
		a.Failure, a.Permanent = fmt.Sprintf("target %d: %s", index+1, err), !errors.Is(err, eventhook.ErrUnknownTarget)
	}
	if s.Meter.Err() != nil {
		stopped := s.stopped(c.route.Name, fmt.Sprintf("target %d", index+1))
		a.Effect, a.Failure, a.Permanent = effects.Effect{}, stopped.text, !stopped.transient
	}
	if a.Effect.Request != nil {
		a.Effect.Request.Delivery = delivery(e, c.route.ID, index)
	}
	return a
}

// delivery is what a request to a target of a route is sent as.
func delivery(e *eventhook.Event, route eventhook.RouteID, index int) *eventhook.Delivery {
	to := eventhook.Destination{TenantID: e.TenantID, RouteID: route, TargetIndex: index}.ID()
	return &eventhook.Delivery{ID: eventhook.DeliveryIDOf(e.ID, to), TenantID: e.TenantID, DestinationID: to, RouteID: route, TargetIndex: index,
		EventID: e.ID, EventType: e.EventType, Status: eventhook.DeliveryPending, Event: e}
}

// effect asks a target what it wants. One that panics over what somebody sent
// must not take the process, and everybody else's events, down with it.
func (p *Program) effect(c *compiled, e *eventhook.Event, view *payload.View, index int, now time.Time) (effect effects.Effect, err error) {
	defer func() {
		if reason := recover(); reason != nil {
			effect, err = effects.Effect{}, p.caught(e, fmt.Sprintf("route %s target %d", c.route.ID, index+1), reason)
		}
	}()
	return c.targets[index].Effect(e, view, now)
}

// prior is the action of an earlier try for a target of a route; nil: there is none.
func prior(s *effects.Settlement, route eventhook.RouteID, index int) *eventhook.Action {
	for i := range s.Prior {
		if a := &s.Prior[i]; a.RouteID == route && a.TargetIndex == index {
			return a
		}
	}
	return nil
}

// isDone reports whether an action need not be planned again. A pending one has a
// delivery that is owed.
func isDone(a *eventhook.Action) bool { return a.Status != eventhook.ActionFailed }
