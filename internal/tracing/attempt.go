package tracing

import (
	"net/url"

	"go.opentelemetry.io/otel/attribute"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/outbound/send"
)

var _ send.Tracer = (*Tracer)(nil)

// Attempted implements send.Tracer. It records an attempt whose trace is sampled, and one that has
// failed in any case.
func (t *Tracer) Attempted(a send.Attempted) {
	e := a.Delivery.Event
	of := traceOfEvent(e)
	if !t.sampler(of, e.TraceFlags()) && (a.Result.Succeeded() || !t.takesFailure()) {
		return
	}
	s := span{name: "deliver to subscription", kind: trace.SpanKindClient, trace: of, id: newSpan(), parent: trace.SpanID(e.Span()),
		began: a.Result.StartedAt, ended: a.Result.StartedAt.Add(a.Result.Duration)}
	if a.Delivery.IsOfRoute() {
		s.name = "deliver to http target"
	}
	s.attributes = append(eventAttributes(e), deliveryAttributes(a.Delivery, a.Attempt)...)
	s.addExchange(a)
	t.record(s)
}

func deliveryAttributes(d *eventhook.Delivery, attempt int) []attribute.KeyValue {
	list := []attribute.KeyValue{deliveryIDKey.String(d.ID.String()), attemptKey.Int(attempt)}
	if d.IsOfRoute() {
		return append(list, routeIDKey.String(d.RouteID.String()), targetKey.Int(d.TargetIndex))
	}
	return append(append(list, subscriptionKey.String(d.SubscriptionID.String())), cloudEvent(d.EventID, d.EventType, "")...)
}

// addExchange adds the request, without the path of its URL, and the answer. The texts of errors
// are left out: they may quote the receiver.
func (s *span) addExchange(a send.Attempted) {
	if q := a.Request; q != nil {
		_, id, _ := eventhook.ParseTraceparent(q.Header.Get("Traceparent"))
		s.id = spanOf(id)
		_, method := methodOf(q.Method)
		s.attributes = append(append(s.attributes, addressAttributes(q.URL.Host)...), semconv.HTTPRequestMethodKey.String(method),
			semconv.URLScheme(q.URL.Scheme), semconv.URLFull(redacted(q.URL)))
		if q.ContentLength >= 0 { // otherwise an agent has sent a request that another instance composed
			s.attributes = append(s.attributes, semconv.HTTPRequestBodySize(int(q.ContentLength)))
		}
		if a.Attempt > 1 {
			s.attributes = append(s.attributes, semconv.HTTPRequestResendCount(a.Attempt-1))
		}
	}
	if a.Result.StatusCode != 0 {
		s.attributes = append(s.attributes, semconv.HTTPResponseStatusCode(a.Result.StatusCode))
	}
	s.failure = errorType(a.Result)
}

// redacted returns a URL without its path, query and user, which may be secret.
func redacted(u *url.URL) string {
	path := "/REDACTED"
	if u.Path == "" || u.Path == "/" {
		path = "/"
	}
	return text(u.Scheme + "://" + u.Host + path)
}

// errorType returns the error.type of an attempt: the status, the class of the failure without an
// answer, or "" for a success.
func errorType(a eventhook.Attempt) string {
	switch {
	case a.Succeeded():
		return ""
	case a.StatusCode != 0:
		return itoa(a.StatusCode)
	}
	return string(a.ErrorClass)
}
