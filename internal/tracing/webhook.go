package tracing

import (
	"net/http"
	"strconv"

	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/ingest"
)

var _ ingest.Tracer = (*Tracer)(nil)

// origin is the trace context that a request to the gateway came with.
type origin struct {
	trace  trace.TraceID // zero without a traceparent
	parent trace.SpanID
	flags  string
}

// originOf parses the traceparent of a request. A request with several has none.
func originOf(h http.Header) origin {
	traceID, parent, flags := ingest.TraceOf(h)
	return origin{traceOf(traceID), spanOf(parent), flags}
}

// ingestRoute is the http.route of webhooks.
var ingestRoute = ingest.Path("{tenant}", "{source}")

// Received implements ingest.Tracer. It records a webhook whose trace is sampled, and one that was
// refused or failed in any case.
func (t *Tracer) Received(w ingest.Webhook) {
	o, id := originOf(w.Request.Header), newSpan()
	switch {
	case w.Event != nil:
		o.trace, id = traceOfEvent(w.Event), trace.SpanID(w.Event.ID.SpanID())
	case !o.trace.IsValid():
		o.trace = newTrace()
	}
	if !t.sampler(o.trace, o.flags) && !hasFailed(w) || w.Status >= http.StatusBadRequest && !t.takesFailure() {
		return
	}
	name, _ := methodOf(w.Request.Method)
	s := span{name: name + " " + ingestRoute, kind: trace.SpanKindServer, trace: o.trace, id: id, parent: o.parent, began: w.Began, ended: t.now(),
		attributes: serverAttributes(w.Request, ingestRoute, w.Status)}
	s.addWebhook(w)
	if w.Status >= http.StatusInternalServerError {
		s.failure = strconv.Itoa(w.Status)
	}
	t.record(s)
}

// hasFailed reports whether a webhook is recorded even if its trace is not sampled. Requests for
// unknown sources and with wrong methods are left out, as in the log: scanners send them.
func hasFailed(w ingest.Webhook) bool {
	return w.Status >= http.StatusBadRequest && w.Outcome != ingest.OutcomeNotFound && w.Outcome != ingest.OutcomeMethod
}

func (s *span) addWebhook(w ingest.Webhook) {
	s.attributes = append(s.attributes, outcomeKey.String(string(w.Outcome)))
	if w.Tenant != "" {
		s.attributes = append(s.attributes, tenantKey.String(w.Tenant), semconv.URLPath(ingest.Path(w.Tenant, w.Source)))
	}
	if w.Reason != "" {
		s.attributes = append(s.attributes, reasonKey.String(text(w.Reason)))
	}
	if w.Sender.IsValid() {
		s.attributes = append(s.attributes, semconv.ClientAddress(w.Sender.String()))
	}
	if w.Event == nil {
		if w.Source != "" {
			s.attributes = append(s.attributes, sourceKey.String(w.Source))
		}
		return
	}
	s.attributes = append(append(s.attributes, eventAttributes(w.Event)...), semconv.HTTPRequestBodySize(w.Event.BodySize))
	if w.Event.Status == eventhook.EventDuplicate {
		s.attributes = append(s.attributes, duplicateOfKey.String(w.Event.DuplicateOf.String()))
	}
}
