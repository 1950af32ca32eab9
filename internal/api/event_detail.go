package api

import (
	"context"
	"encoding/json"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/payload"
)

type eventAnswer struct{ Body eventDetail }

func (s *server) getEvent(ctx context.Context, by caller, in *eventRequest) (*eventAnswer, error) {
	e, err := s.event(ctx, by, in.ID)
	if err != nil {
		return nil, err
	}
	p, body, err := s.shownPayload(ctx, by, &e, in.MaxBodyBytes)
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
	d := eventDetail{EventView: viewEvent(e), Headers: headerMap(p.Headers),
		Body: body, BodyLeftOut: body == nil && p.Headers != nil,
		Actions: []actionView{}, ActionsCount: count,
		Outcome: string(outcome.Outcome), Failures: []failureView{}}
	d.Method, d.PathSuffix, d.Query = webhookRequest(&e, p)
	d.Verification = viewVerification(&e, p)
	if d.ReceivedInMinute, err = s.receivedInMinute(ctx, by, &e); err != nil {
		return nil, err
	}
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

// shownPayload reads the headers of an event, and its body as JSON. body is nil if it is larger than
// most permits: it is not read, or not kept.
func (s *server) shownPayload(ctx context.Context, by caller, e *eventhook.Event,
	most int) (p eventhook.Payload, body json.RawMessage, err error) {
	if e.BodySize > most {
		p, err = s.payloadOf(ctx, by, e, 0, shownWeight)
		return p, nil, err
	}
	if p, err = s.payloadOf(ctx, by, e, most, shownWeight); err != nil {
		return p, nil, err
	}
	if body = bodyJSON(e.ContentType, p); len(body) > max(shownWeight*most, len("null")) {
		body = nil
	}
	return p, body, nil
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

// viewVerification returns how a webhook was verified; nil if that is not recorded.
func viewVerification(e *eventhook.Event, p eventhook.Payload) *verificationView {
	v, ok := payload.HeaderBlock(p.Headers).Verification()
	if e.Origin != eventhook.OriginSource || !ok {
		return nil
	}
	return &verificationView{v.Scheme, v.Secret, v.Of}
}

// receivedInMinute returns how many webhooks the source of an event stored in the same minute; nil
// if that is not known.
func (s *server) receivedInMinute(ctx context.Context, by caller, e *eventhook.Event) (*int64, error) {
	at := e.ID.Time()
	if e.Origin != eventhook.OriginSource || s.Now().Sub(at) > eventhook.TrafficRetention-time.Hour {
		return nil, nil //nolint:nilnil // not known
	}
	t, err := s.Overviews.SourceTraffic(ctx, by.tenant, e.SourceID, eventhook.TrafficWindowAt(at, eventhook.TrafficMinute, 1))
	n := max(t.Received, 1) // an instance may not have counted this event yet
	return &n, err
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
