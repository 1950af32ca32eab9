package tracing

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"time"

	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/eventhook/eventhook"
)

func itoa(n int) string { return strconv.Itoa(n) }

// Request is a request to the API whose span has not ended. It is used by the goroutine of its
// request.
type Request struct {
	*Tracer
	origin
	id    trace.SpanID
	began time.Time
	list  []span // of the events and executions that it created, without their places in a trace
}

type requestKey struct{}

// Begin returns the span of a request to the API, and a context with it.
func (t *Tracer) Begin(r *http.Request) (*Request, context.Context) {
	q := &Request{Tracer: t, origin: originOf(r.Header), id: newSpan(), began: t.now()}
	return q, context.WithValue(r.Context(), requestKey{}, q)
}

// Created notes the events that the request of ctx has published.
func Created(ctx context.Context, e *eventhook.Event) {
	q, ok := ctx.Value(requestKey{}).(*Request)
	if !ok {
		return
	}
	s := span{name: "publish event", kind: trace.SpanKindProducer, trace: traceOfEvent(e), id: trace.SpanID(e.ID.SpanID()), began: q.began, ended: q.now()}
	if q.sampler(s.trace, e.TraceFlags()) {
		source := ""
		if e.Envelope != nil {
			source = e.Envelope.Source
		}
		s.attributes = append(append(messageAttributes("publish", e.EventType, e.ID.String()), cloudEvent(e.ID, e.EventType, source)...),
			tenantIDKey.String(e.TenantID.String()))
		q.list = append(q.list, s)
	}
}

// Started notes an execution that the request of ctx has started.
func Started(ctx context.Context, x *eventhook.Execution) {
	q, ok := ctx.Value(requestKey{}).(*Request)
	if !ok {
		return
	}
	s := executionSpan(x)
	s.kind, s.trace, s.began, s.ended = trace.SpanKindProducer, traceOf(x.Trace()), q.began, q.now()
	if q.sampler(s.trace, x.TraceFlags) {
		s.attributes = append(s.attributes, tenantIDKey.String(x.TenantID.String()))
		q.list = append(q.list, s)
	}
}

// End records the request and all that it created. The request has the trace of its traceparent
// or, without one, of the first event or execution that it created. An event of another trace, as
// a CloudEvent may have, is linked to the request.
func (q *Request) End(r *http.Request, route, tenant string, status int) {
	if !q.trace.IsValid() && len(q.list) > 0 {
		q.trace = q.list[0].trace
	}
	if !q.trace.IsValid() {
		q.trace = newTrace()
	}
	for _, s := range q.list {
		if s.trace == q.trace {
			s.parent = q.id
		} else {
			s.links = []trace.Link{linkTo(q.trace, q.id)}
		}
		q.record(s)
	}
	isFailure := status >= http.StatusBadRequest
	if !q.sampler(q.trace, q.flags) && !isFailure || isFailure && !q.takesFailure() {
		return
	}
	name, _ := methodOf(r.Method)
	s := span{name: name + " " + route, kind: trace.SpanKindServer, trace: q.trace, id: q.id, parent: q.parent, began: q.began, ended: q.now(),
		attributes: append(serverAttributes(r, route, status), tenantKey.String(text(tenant)))}
	if eventhook.IsSlug(tenant) {
		s.attributes = append(s.attributes, semconv.URLPath(strings.Replace(route, "{tenant}", tenant, 1)))
	}
	if status >= http.StatusInternalServerError {
		s.failure = itoa(status)
	}
	q.record(s)
}
