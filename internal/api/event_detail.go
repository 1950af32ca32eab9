package api

import (
	"context"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/payload"
)

type eventAnswer struct{ Body eventDetail }

func (s *server) getEvent(ctx context.Context, by caller, in *EventPath) (*eventAnswer, error) {
	e, p, err := s.eventWithPayload(ctx, by, in.ID, shownWeight)
	if err != nil {
		return nil, err
	}
	actions, count, err := s.Events.Actions(ctx, &e, maxActions)
	if err != nil {
		return nil, err
	}
	outcome, err := s.Events.EventOutcome(ctx, &e, actions)
	if err != nil {
		return nil, err
	}
	d := eventDetail{EventView: viewEvent(e), Headers: headerMap(p.Headers), Body: bodyJSON(e.ContentType, p),
		Actions: []actionView{}, ActionsCount: count,
		Outcome: string(outcome.Outcome), Failures: []failureView{}}
	d.Method, d.PathSuffix, d.Query = webhookRequest(&e, p)
	for _, a := range actions {
		d.Actions = append(d.Actions, viewAction(a, outcome))
	}
	for _, f := range outcome.Failures {
		d.Failures = append(d.Failures, failureView{string(f.Type), f.ID, f.EventID.String(), f.Status, f.Error})
	}
	d.Deliveries, d.DeliveriesCount, err = s.deliveriesOf(ctx, by, e.ID)
	if err != nil {
		return nil, err
	}
	return &eventAnswer{d}, nil
}

// webhookRequest returns the method, the path suffix and the query of a webhook. method is nil for other
// events, and without a payload.
func webhookRequest(e *eventhook.Event, p eventhook.Payload) (method *string, suffix, query string) {
	if e.Origin != eventhook.OriginSource || p.Headers == nil {
		return nil, "", ""
	}
	text, suffix, query := payload.HeaderBlock(p.Headers).Request()
	return &text, suffix, query
}

func viewAction(a eventhook.Action, o eventhook.EventOutcome) actionView {
	v := actionView{
		ID: a.ID.String(), RouteID: a.RouteID.String(), RouteName: a.RouteName, TargetType: a.TargetType, Status: string(a.Status),
		Attempts: a.Attempts, PromiseID: optionalID(a.PromiseID), PublishedEventID: optionalID(a.PublishedEventID),
		EffectStatus: effectStatus(a, o), ErrorMessage: optional(a.ErrorMessage), StartedAt: utc(a.StartedAt),
		CompletedAt: optionalUTC(a.CompletedAt),
	}
	if a.TargetType == eventhook.TargetWorkflow {
		v.WorkflowExecutionID = optionalID(a.ExecutionID)
	} else {
		v.TaskExecutionID = optionalID(a.ExecutionID)
	}
	return v
}

// effectStatus returns the current status of the effect of an action; nil if it is not known.
func effectStatus(a eventhook.Action, o eventhook.EventOutcome) *string {
	switch {
	case !a.ExecutionID.IsZero():
		return optional(string(o.Executions[a.ExecutionID]))
	case !a.PromiseID.IsZero():
		return optional(string(o.Promises[a.PromiseID]))
	}
	return optional(string(o.Published[a.PublishedEventID]))
}
