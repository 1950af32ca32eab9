package route

import (
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/payload"
)

// Effector is what a compiled target offers; package targets has them.
type Effector interface {
	Effect(e *eventhook.Event, v *payload.View, now time.Time) (eventhook.Effect, error)
}

// Program is a source's routes, compiled once and shared: matching is pure
// and safe for concurrent use.
type Program struct {
	retry    eventhook.RetryPolicy
	routes   []compiled
	panicked func(e *eventhook.Event, at string, reason any, stack []byte) // may be nil
}

type compiled struct {
	route    eventhook.Route
	types    patterns
	targets  []Effector
	problems []error // per target, why it cannot be compiled
}

// Compile makes a program of routes in their order of evaluation. A target
// that cannot be compiled, which validation prevents, or that panics, fails
// its own actions and no others.
func Compile(retry eventhook.RetryPolicy, routes []eventhook.Route, target func(eventhook.Target) (Effector, error)) *Program {
	p := &Program{retry: retry.Or(eventhook.EventRetry)}
	for _, r := range routes {
		c := compiled{route: r, types: compilePatterns(r.FilterEventTypes)}
		for _, t := range r.Targets {
			effector, err := compileTarget(t, target)
			c.targets = append(c.targets, effector)
			c.problems = append(c.problems, err)
		}
		p.routes = append(p.routes, c)
	}
	return p
}

var errPanicked = errors.New("failed unexpectedly; the gateway's log has the reason")

func compileTarget(t eventhook.Target, target func(eventhook.Target) (Effector, error)) (x Effector, err error) {
	defer func() {
		if recover() != nil {
			x, err = nil, errPanicked
		}
	}()
	return target(t)
}

// Settle matches an event and plans the actions of its routes, except those
// that an earlier try has done.
func (p *Program) Settle(e *eventhook.Event, done []eventhook.Action, now time.Time) *eventhook.Settlement {
	s := &eventhook.Settlement{Event: e, Retry: p.retry}
	var view *payload.View
	for i := range p.routes {
		c := &p.routes[i]
		if !c.types.match(e.EventType) {
			continue
		}
		if view == nil {
			view = payload.New(payload.Block(e.Headers), e.ContentType, e.Body)
		}
		for index := range c.targets {
			s.Matched++
			if !isDone(done, c.route.ID, index) {
				s.Actions = append(s.Actions, p.plan(c, e, view, index, now))
			}
		}
	}
	return s
}

func (p *Program) plan(c *compiled, e *eventhook.Event, view *payload.View, index int, now time.Time) eventhook.PlannedAction {
	a := eventhook.PlannedAction{Action: eventhook.Action{
		ID:          eventhook.NewID[eventhook.Action](now),
		EventID:     e.ID,
		RouteID:     c.route.ID,
		RouteName:   c.route.Name,
		TargetIndex: index,
		TargetType:  c.route.Targets[index].Type,
		StartedAt:   now,
	}}
	err := c.problems[index]
	if err == nil {
		a.Effect, err = p.effect(c, e, view, index, now)
	}
	if err != nil {
		a.Failure, a.Permanent = fmt.Sprintf("target %d: %s", index+1, err), true
	}
	return a
}

// effect asks a target what it wants. One that panics over what somebody sent
// must not take the process, and everybody else's events, down with it.
func (p *Program) effect(c *compiled, e *eventhook.Event, view *payload.View, index int, now time.Time) (effect eventhook.Effect, err error) {
	defer func() {
		if reason := recover(); reason != nil {
			if p.panicked != nil {
				p.panicked(e, fmt.Sprintf("route %s target %d", c.route.ID, index+1), reason, debug.Stack())
			}
			effect, err = eventhook.Effect{}, errPanicked
		}
	}()
	return c.targets[index].Effect(e, view, now)
}

func isDone(done []eventhook.Action, route eventhook.RouteID, index int) bool {
	for _, a := range done {
		if a.RouteID == route && a.TargetIndex == index {
			return true
		}
	}
	return false
}

// patterns are event type patterns: exact, "prefix.*" or "*"; none match all.
type patterns struct {
	all      bool
	exact    []string
	prefixes []string // with the dot
}

func compilePatterns(list []string) patterns {
	p := patterns{all: len(list) == 0}
	for _, s := range list {
		switch {
		case s == "*":
			p.all = true
		case strings.HasSuffix(s, ".*"):
			p.prefixes = append(p.prefixes, strings.TrimSuffix(s, "*"))
		default:
			p.exact = append(p.exact, s)
		}
	}
	return p
}

func (p *patterns) match(eventType string) bool {
	if p.all {
		return true
	}
	for _, s := range p.exact {
		if s == eventType {
			return true
		}
	}
	for _, s := range p.prefixes {
		if strings.HasPrefix(eventType, s) {
			return true
		}
	}
	return false
}
