package tracing

import (
	"net/url"
	"strings"

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
	name := "deliver to subscription"
	if a.Delivery.IsOfRoute() {
		name = "deliver to http target"
	}
	if s, isTaken := t.attempt(name, a.Delivery, a.Attempt, a.Result); isTaken {
		s.addExchange(a)
		t.record(s)
	}
}

// Sent implements brokers.Tracer. It records an attempt to send a message to a broker, or a request to
// Temporal, as Attempted does. server may be a list of servers, the first of which is recorded.
func (t *Tracer) Sent(d *eventhook.Delivery, attempt int, server string, result eventhook.Attempt) {
	s, isTaken := t.attempt("deliver to message target", d, attempt, result)
	if !isTaken {
		return
	}
	first, _, _ := strings.Cut(server, ",")
	s.attributes = append(s.attributes, addressAttributes(first)...)
	s.failure = errorType(result)
	t.record(s)
}

// attempt returns the span of an attempt, and false if it is not recorded.
func (t *Tracer) attempt(name string, d *eventhook.Delivery, attempt int, result eventhook.Attempt) (s span, isTaken bool) {
	e := d.Event
	of := traceOfEvent(e)
	if !t.sampler(of, e.TraceFlags()) && (result.Succeeded() || !t.takesFailure()) {
		return span{}, false
	}
	return span{name: name, kind: trace.SpanKindClient, trace: of, id: newSpan(), parent: trace.SpanID(e.Span()),
		began: result.StartedAt, ended: result.StartedAt.Add(result.Duration),
		attributes: append(eventAttributes(e), deliveryAttributes(d, attempt)...)}, true
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
