package route

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/cpushare"
	"github.com/eventhook/eventhook/internal/effects"
	"github.com/eventhook/eventhook/internal/filter"
	"github.com/eventhook/eventhook/internal/meter"
	"github.com/eventhook/eventhook/internal/payload"
	"github.com/eventhook/eventhook/internal/script"
)

// UndecidedPrefix begins the reason of a route of which nobody can tell whether it
// would take an event, such as one whose filter_function was stopped. Its
// actions would fail, so that it counts as one that matches.
const UndecidedPrefix = "cannot tell: "

// Explanation tells what a route would do with an event, and why.
type Explanation struct {
	Route   eventhook.Route
	Matched bool
	Reason  string            // why it matches, or why not, or why that cannot be told, for people
	General string            // of one that does not match: the reason without what this event holds
	Actions []ExplainedTarget // of a route that matches, one for each target
}

// ExplainedTarget is what one target would be given. Err says why the target
// would fail instead; its text may be shown to users.
type ExplainedTarget struct {
	Type string
	// Input is an execution's; of a promise its key, its status, and its value or
	// error; of an event to be published its type, key and data; of a request
	// its preview.
	Input     json.RawMessage
	IsLeftOut bool // the input, since there is too much of it
	Err       error
}

// Explain tells of each route of the program, in their order, what it would do
// with an event. Unlike Settle it heeds whether a route is enabled, so that a
// program for it may hold those that are not. It is pure: nothing is settled.
// The time comes from the tenant's share. Scripts are run one at a time for each
// tenant. When that would take too long to come to, the error is of
// KindUnavailable; when the share is used up, it is cpushare.ErrBusy; when ctx
// ends before, it is ctx's.
func (p *Program) Explain(ctx context.Context, all *cpushare.Limiter, e *eventhook.Event, now time.Time) (list []Explanation, err error) {
	var refused error
	err = all.Evaluate(ctx, e.TenantID, cpushare.Tests, func(m *meter.Meter) { list, refused = p.explain(ctx, m, e, now) })
	if err != nil && !errors.Is(err, meter.ErrLimit) { // a route tells of the limit
		return nil, err
	}
	return list, refused
}

func (p *Program) explain(ctx context.Context, m *meter.Meter, e *eventhook.Event, now time.Time) ([]Explanation, error) {
	var refused error
	s := newSubject(m, e, &p.fields, func(program script.Program, input []byte) (json.RawMessage, error) {
		out, err := trying.run(ctx, e.TenantID, program, input)
		if !isAnswer(err) {
			refused = err
		}
		return out, err
	})
	defer s.release()
	list := make([]Explanation, 0, len(p.routes))
	for i := range p.routes {
		list = append(list, p.explainRoute(&p.routes[i], s, now))
		if refused != nil {
			return nil, refused
		}
	}
	return list, nil
}

// isAnswer reports whether a script has been tried out, with this error.
func isAnswer(err error) bool {
	_, ofScript := errors.AsType[*script.Error](err)
	return err == nil || ofScript
}

func (p *Program) explainRoute(c *compiled, s *subject, now time.Time) Explanation {
	x := Explanation{Route: c.route}
	if x.Matched, x.Reason = c.explainType(s.Event.EventType); !x.Matched {
		x.General = x.Reason
		return x
	}
	var why filter.Reasons
	matched, problem := p.judge(c, s, &why)
	view := s.View
	switch {
	case problem != nil:
		x.Reason = UndecidedPrefix + problem.text
	case !matched:
		x.Matched, x.Reason, x.General = false, why.String(), why.General()
		x.mention(c, s)
		return x
	case c.pattern != nil || c.expression != nil || c.function != "":
		x.Reason += ", and its filters hold"
	}
	if problem == nil {
		view, problem = p.given(c, s)
	}
	for index := range c.targets {
		x.Actions = append(x.Actions, p.explainTarget(c, s, view, problem, index, now))
	}
	x.mention(c, s)
	return x
}

// mention adds to the reason why the body could not be read, if that may have
// to do with it: the route's filters read it, or an action would fail.
func (x *Explanation) mention(c *compiled, s *subject) {
	wouldFail := slices.ContainsFunc(x.Actions, func(a ExplainedTarget) bool { return a.Err != nil })
	if !wouldFail && !c.readBody(s.Event.ContentType) {
		return
	}
	why, where := s.View.ParseFailure()
	if why == "" {
		return
	}
	if x.General != "" {
		x.General += " (" + why + ")"
	}
	if where != "" {
		why += " " + where
	}
	x.Reason += " (" + why + ")"
}

// explainType says whether a route takes events of a type, and why.
func (c *compiled) explainType(eventType string) (matched bool, reason string) {
	patterns := c.route.FilterEventTypes
	by := slices.IndexFunc(patterns, func(pattern string) bool { return filter.MatchType(pattern, eventType) })
	switch {
	case !c.route.IsEnabled:
		return false, "the route is disabled"
	case len(patterns) == 0:
		return true, "the route takes events of every type"
	case by >= 0:
		return true, fmt.Sprintf("event type %q matches %q", eventType, patterns[by])
	}
	return false, fmt.Sprintf("event type %q matches none of %s", eventType, strings.Join(patterns, ", "))
}

// mostTold is how many bytes the inputs of one explanation have, all together;
// the last may go beyond.
const mostTold = 4 << 20

func (p *Program) explainTarget(c *compiled, s *subject, view *payload.View, problem *problem, index int, now time.Time) ExplainedTarget {
	planned := p.plan(c, s, view, problem, index, now)
	x := ExplainedTarget{Type: planned.TargetType}
	if planned.Failure != "" {
		x.Err = errors.New(planned.Failure)
		return x
	}
	if x.IsLeftOut = s.told > mostTold; !x.IsLeftOut {
		x.Input, x.Err = input(planned.Effect, view)
		s.told += len(x.Input)
	}
	return x
}

// settled is how a promise would be settled.
type settled struct {
	IdempotencyKey string          `json:"idempotency_key"`
	Status         string          `json:"status"`
	Value          json.RawMessage `json:"value,omitempty"`
	Error          string          `json:"error,omitempty"`
}

// published is an event that would be made.
type published struct {
	EventType      string          `json:"event_type"`
	IdempotencyKey string          `json:"idempotency_key,omitempty"`
	Data           json.RawMessage `json:"data"`
}

// input is what an effect hands over.
func input(effect effects.Effect, view *payload.View) (json.RawMessage, error) {
	switch x, o, p := effect.Execution, effect.Promise, effect.Publication; {
	case x != nil && x.Input != nil:
		return x.Input, nil
	case x != nil:
		return view.Render(), nil
	case o != nil:
		return json.Marshal(settled{IdempotencyKey: o.Key, Status: string(o.Status), Value: o.Value, Error: o.Error})
	case p != nil:
		return json.Marshal(published{p.EventType, p.IdempotencyKey, p.Data})
	case effect.Request != nil && effect.Request.Preview != nil:
		return effect.Request.Preview(), nil
	}
	return json.RawMessage("null"), nil
}
