package tracing

import (
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/effects"
)

// Settled records how the events of a batch were planned, and the effects that were stored.
func (t *Tracer) Settled(batch []*effects.Settlement) {
	for _, s := range batch {
		if t.sampler(traceOfEvent(s.Event), s.Event.TraceFlags()) {
			t.recordPlan(s)
		}
	}
}

func (t *Tracer) recordPlan(of *effects.Settlement) {
	e := of.Event
	x := span{name: "plan event", kind: trace.SpanKindInternal, trace: traceOfEvent(e), id: newSpan(), parent: trace.SpanID(e.ID.SpanID()),
		began: of.PlanBegan, ended: of.PlanBegan.Add(of.PlanTook)}
	x.attributes = append(eventAttributes(e), eventStatusKey.String(string(of.Status)), actionsKey.Int(len(of.Actions)))
	if of.LastError != "" { // it may quote the event
		x.failure = "plan_failed"
	}
	if !e.ReprocessedFrom.IsZero() && e.RetryCount == 0 {
		t.recordCopy(e, x)
	}
	t.record(x)
	for i := range of.Actions {
		if s, ok := t.effectSpan(&of.Actions[i], e); ok {
			s.kind, s.trace, s.parent, s.began, s.ended = cmpKind(s.kind), x.trace, x.id, x.ended, t.now()
			s.attributes = append(s.attributes, tenantIDKey.String(e.TenantID.String()), routeIDKey.String(of.Actions[i].RouteID.String()),
				routeNameKey.String(text(of.Actions[i].RouteName)))
			t.record(s)
		}
	}
}

// recordCopy records the creation of an event whose payload was processed before.
func (t *Tracer) recordCopy(e *eventhook.Event, plan span) {
	t.record(span{name: "reprocess event", kind: trace.SpanKindInternal, trace: plan.trace, id: plan.parent, parent: trace.SpanID(e.ReprocessedFrom.SpanID()),
		began: e.ID.Time(), ended: e.ID.Time(), attributes: eventAttributes(e)})
}

// cmpKind returns the kind of a span, by default that of a span that creates a message.
func cmpKind(k trace.SpanKind) trace.SpanKind {
	if k == trace.SpanKindUnspecified {
		return trace.SpanKindProducer
	}
	return k
}

// effectSpan returns the span of an effect that was stored. A request has a span for each of its
// attempts instead.
func (t *Tracer) effectSpan(a *effects.PlannedAction, of *eventhook.Event) (s span, ok bool) {
	switch x := a.Effect; {
	case a.Status != eventhook.ActionSuccess:
		return s, false
	case x.Execution != nil:
		return executionSpan(x.Execution), true
	case x.Publication != nil:
		s = span{name: "publish event", id: trace.SpanID(x.Publication.ID.SpanID())}
		s.attributes = append(messageAttributes("publish", x.Publication.EventType, x.Publication.ID.String()),
			cloudEvent(x.Publication.ID, x.Publication.EventType, of.SourceSlug)...)
		return s, true
	case x.Promise != nil:
		return span{name: "settle promise", kind: trace.SpanKindInternal, id: newSpan(),
			attributes: []attribute.KeyValue{promiseKey.String(string(x.Promise.Status))}}, true
	}
	return s, false
}

// executionSpan returns the span in which an execution was created, without its place in a trace.
func executionSpan(x *eventhook.Execution) span {
	s := span{name: "create " + string(x.Type), id: trace.SpanID(x.ID.SpanID())}
	s.attributes = append(messageAttributes("create", x.Queue, x.ID.String()), executionIDKey.String(x.ID.String()), kindKey.String(text(x.Kind)))
	return s
}
