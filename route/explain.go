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
	"github.com/eventhook/eventhook/internal/payload"
	"github.com/eventhook/eventhook/internal/script"
)

// Explanation tells what a route would do with an event, and why.
type Explanation struct {
	Route   eventhook.Route
	Matched bool
	Reason  string            // why it matches, or why not, or why that cannot be told, for people
	Actions []ExplainedTarget // of a route that matches, one for each target
}

// ExplainedTarget is what one target would be given. Err says why the target
// would fail instead; its text may be shown to users.
type ExplainedTarget struct {
	Type  string
	Input json.RawMessage // of an execution; of a promise its key, its status, and its value or error
	Err   error
}

// Explain tells of each route of the program, in their order, what it would do
// with an event. Unlike Settle it heeds whether a route is enabled, so that a
// program for it may hold those that are not. It is pure: nothing is settled.
// Scripts are run one at a time for each tenant. When that would take too long
// to come to, the error is of KindUnavailable; when ctx ends before, it is
// ctx's.
func (p *Program) Explain(ctx context.Context, e *eventhook.Event, now time.Time) ([]Explanation, error) {
	var refused error
	s := newSubject(e, &p.fields, func(program script.Program, input []byte) (json.RawMessage, error) {
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
	if x.Matched, x.Reason = c.explainType(s.event.EventType); !x.Matched {
		return x
	}
	var why reasons
	matched, problem := p.judge(c, s, &why)
	view := s.view
	switch {
	case problem != nil:
		x.Reason = problem.text
	case !matched:
		x.Matched, x.Reason = false, why.String()
		return x
	case c.pattern != nil || c.expression != nil || c.function != "":
		x.Reason += ", and its filters hold"
	}
	if problem == nil {
		view, problem = p.given(c, s)
	}
	for index := range c.targets {
		x.Actions = append(x.Actions, p.explainTarget(c, s.event, view, problem, index, now))
	}
	return x
}

// explainType says whether a route takes events of a type, and why.
func (c *compiled) explainType(eventType string) (matched bool, reason string) {
	filter := c.route.FilterEventTypes
	by := slices.IndexFunc(filter, func(pattern string) bool { return matchType(pattern, eventType) })
	switch {
	case !c.route.IsEnabled:
		return false, "the route is disabled"
	case len(filter) == 0:
		return true, "the route takes events of every type"
	case by >= 0:
		return true, fmt.Sprintf("event type %q matches %q", eventType, filter[by])
	}
	return false, fmt.Sprintf("event type %q matches none of %s", eventType, strings.Join(filter, ", "))
}

func (p *Program) explainTarget(c *compiled, e *eventhook.Event, view *payload.View, problem *problem, index int, now time.Time) ExplainedTarget {
	planned := p.plan(c, e, view, problem, index, now)
	x := ExplainedTarget{Type: planned.TargetType}
	if planned.Failure != "" {
		x.Err = errors.New(planned.Failure)
		return x
	}
	x.Input, x.Err = input(planned.Effect, view)
	return x
}

// settled is how a promise would be settled.
type settled struct {
	IdempotencyKey string          `json:"idempotency_key"`
	Status         string          `json:"status"`
	Value          json.RawMessage `json:"value,omitempty"`
	Error          string          `json:"error,omitempty"`
}

// input is what an effect hands over.
func input(effect eventhook.Effect, view *payload.View) (json.RawMessage, error) {
	switch x, o := effect.Execution, effect.Promise; {
	case x != nil && x.Input != nil:
		return x.Input, nil
	case x != nil:
		return view.Render(), nil
	case o != nil:
		return json.Marshal(settled{IdempotencyKey: o.Key, Status: string(o.Status), Value: o.Value, Error: o.Error})
	}
	return json.RawMessage("null"), nil
}
