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

// UndecidedPrefix begins the reason of a route for which the filters could not be evaluated, for
// example because filter_function was stopped. The route counts as matching, and its actions would
// fail.
const UndecidedPrefix = "cannot tell: "

// Explanation describes the actions of a route for an event, and the reason.
type Explanation struct {
	Route   eventhook.Route
	Matched bool
	Reason  string            // why it matches or does not match, or UndecidedPrefix and a cause
	General string            // if it does not match: the reason without values of this event
	Actions []ExplainedTarget // if it matches: one for each target
}

// ExplainedTarget is the input that one target would get. If Err is not nil, the target would fail;
// its text may be shown to users.
type ExplainedTarget struct {
	Type string
	// Input is the input of an execution; the key, status, and value or error of a promise; the
	// type, key and data of a published event; or the preview of a request.
	Input     json.RawMessage
	IsLeftOut bool // Input is omitted because the explanation is too large
	Err       error
}

// Explain returns an Explanation for each route of the program, in order. Unlike Settle it checks
// whether a route is enabled, so the program may hold disabled routes. It stores no effect. The
// work is charged to the tenant's share of evaluation time. Scripts run one at a time for each
// tenant. The error is of KindUnavailable if no script process was free in time, cpushare.ErrBusy
// if the share is used up, or ctx's error.
func (p *Program) Explain(ctx context.Context, limiter *cpushare.Limiter, e *eventhook.Event, now time.Time) (list []Explanation, err error) {
	var refused error
	err = limiter.Evaluate(ctx, e.TenantID, cpushare.Tests, func(m *meter.Meter) { list, refused = p.explain(ctx, m, e, now) })
	if err != nil && !errors.Is(err, meter.ErrLimit) { // at the limit, the explanation of a route reports it
		return nil, err
	}
	return list, refused
}

func (p *Program) explain(ctx context.Context, m *meter.Meter, e *eventhook.Event, now time.Time) ([]Explanation, error) {
	var refused error
	s := newSubject(m, e, &p.fields, func(program script.Program, input []byte) (json.RawMessage, error) {
		out, err := testScripts.run(ctx, e.TenantID, program, input)
		if !isScriptResult(err) {
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

// isScriptResult reports whether err is the result of running or checking a script: nil or an error
// of the script. Any other error means that the script was not run.
func isScriptResult(err error) bool {
	_, ofScript := errors.AsType[*script.Error](err)
	return err == nil || ofScript
}

func (p *Program) explainRoute(c *compiledRoute, s *subject, now time.Time) Explanation {
	x := Explanation{Route: c.route}
	if x.Matched, x.Reason = c.explainType(s.Event.EventType); !x.Matched {
		x.General = x.Reason
		return x
	}
	var why filter.Reasons
	matched, problem := p.matchRoute(c, s, &why)
	view := s.View
	switch {
	case problem != nil:
		x.Reason = UndecidedPrefix + problem.text
	case !matched:
		x.Matched, x.Reason, x.General = false, why.String(), why.General()
		x.addUnreadBody(c, s)
		return x
	case c.filter != nil || c.expression != nil || c.function != "":
		x.Reason += ", and its filters hold"
	}
	if problem == nil {
		view, problem = p.transformedView(c, s)
	}
	for index := range c.targets {
		x.Actions = append(x.Actions, p.explainTarget(c, s, view, problem, index, now))
	}
	x.addUnreadBody(c, s)
	return x
}

// addUnreadBody appends why the body could not be parsed, if that can affect the result: the
// filters read the body, or an action would fail.
func (x *Explanation) addUnreadBody(c *compiledRoute, s *subject) {
	wouldFail := slices.ContainsFunc(x.Actions, func(a ExplainedTarget) bool { return a.Err != nil })
	if !wouldFail && !c.readsBody(s.Event.ContentType) {
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

// explainType reports whether a route accepts events of a type, and why.
func (c *compiledRoute) explainType(eventType string) (matched bool, reason string) {
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

// maxInputBytes limits the inputs in one explanation. The last input may exceed it.
const maxInputBytes = 4 << 20

func (p *Program) explainTarget(c *compiledRoute, s *subject, view *payload.View, problem *problem, index int, now time.Time) ExplainedTarget {
	planned := p.planAction(c, s, view, problem, index, now)
	x := ExplainedTarget{Type: planned.TargetType}
	if planned.Failure != "" {
		x.Err = errors.New(planned.Failure)
		return x
	}
	if x.IsLeftOut = s.inputBytes > maxInputBytes; !x.IsLeftOut {
		x.Input, x.Err = effectInput(planned.Effect, view)
		s.inputBytes += len(x.Input)
	}
	return x
}

// promisePreview shows how a promise would be settled.
type promisePreview struct {
	IdempotencyKey string          `json:"idempotency_key"`
	Status         string          `json:"status"`
	Value          json.RawMessage `json:"value,omitempty"`
	Error          string          `json:"error,omitempty"`
}

// publicationPreview shows an event that would be published.
type publicationPreview struct {
	EventType      string          `json:"event_type"`
	IdempotencyKey string          `json:"idempotency_key,omitempty"`
	Data           json.RawMessage `json:"data"`
}

// effectInput returns the input that an effect passes on, as JSON.
func effectInput(effect effects.Effect, view *payload.View) (json.RawMessage, error) {
	switch x, o, p := effect.Execution, effect.Promise, effect.Publication; {
	case x != nil && x.Input != nil:
		return x.Input, nil
	case x != nil:
		return view.Render(), nil
	case o != nil:
		return json.Marshal(promisePreview{IdempotencyKey: o.Key, Status: string(o.Status), Value: o.Value, Error: o.Error})
	case p != nil:
		return json.Marshal(publicationPreview{p.EventType, p.IdempotencyKey, p.Data})
	case effect.Request != nil && effect.Request.Preview != nil:
		return effect.Request.Preview(), nil
	}
	return json.RawMessage("null"), nil
}
