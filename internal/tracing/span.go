package tracing

import (
	"context"
	"encoding/hex"
	"strings"
	"time"
	"unicode/utf8"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/eventhook/eventhook"
)

// span is a span that has ended.
type span struct {
	name       string // of low cardinality
	kind       trace.SpanKind
	trace      trace.TraceID
	id         trace.SpanID
	parent     trace.SpanID // zero: the root of its trace
	began      time.Time
	ended      time.Time
	attributes []attribute.KeyValue
	links      []trace.Link
	// failure is the error.type of a span that has failed, of low cardinality; message is for
	// people and contains no secret.
	failure, message string
}

// record queues a span for its export. The caller has found its trace to be sampled.
func (t *Tracer) record(s span) {
	ctx := context.WithValue(context.Background(), spanKey{}, &s)
	if s.parent.IsValid() {
		ctx = trace.ContextWithRemoteSpanContext(ctx, contextOf(s.trace, s.parent))
	}
	_, x := t.spans.Start(ctx, s.name, trace.WithSpanKind(s.kind), trace.WithTimestamp(s.began), trace.WithAttributes(s.attributes...),
		trace.WithLinks(s.links...))
	if s.failure != "" {
		x.SetAttributes(semconv.ErrorTypeKey.String(s.failure))
		x.SetStatus(codes.Error, text(s.message))
	}
	x.End(trace.WithTimestamp(later(s.began, s.ended)))
}

// later returns the end of a span, which a step of the clock may have moved before its beginning.
func later(began, ended time.Time) time.Time {
	if ended.Before(began) {
		return began
	}
	return ended
}

type spanKey struct{}

// ids gives each span the ids that it has already.
type ids struct{}

func (ids) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	s, _ := ctx.Value(spanKey{}).(*span)
	return s.trace, s.id
}

func (i ids) NewSpanID(ctx context.Context, _ trace.TraceID) trace.SpanID {
	_, id := i.NewIDs(ctx)
	return id
}

// contextOf returns the context of a span that is sampled.
func contextOf(id trace.TraceID, of trace.SpanID) trace.SpanContext {
	return trace.NewSpanContext(trace.SpanContextConfig{TraceID: id, SpanID: of, TraceFlags: trace.FlagsSampled, Remote: true})
}

func linkTo(id trace.TraceID, of trace.SpanID) trace.Link {
	return trace.Link{SpanContext: contextOf(id, of)}
}

// traceOf decodes a trace id of hexadecimal digits.
func traceOf(text string) (id trace.TraceID) {
	_, _ = hex.Decode(id[:], []byte(text[:min(len(text), 2*len(id))])) // an invalid id is zero, with which nothing is exported
	return id
}

// traceOfEvent returns Event.Trace decoded, without encoding the event's id first.
func traceOfEvent(e *eventhook.Event) trace.TraceID {
	if e.TraceID == "" {
		return trace.TraceID(e.ID)
	}
	return traceOf(e.Trace())
}

// spanOf decodes a span id of hexadecimal digits.
func spanOf(text string) (id trace.SpanID) {
	_, _ = hex.Decode(id[:], []byte(text[:min(len(text), 2*len(id))])) // an invalid id is zero, no parent
	return id
}

func newTrace() trace.TraceID { return traceOf(eventhook.NewTraceID()) }

func newSpan() trace.SpanID { return trace.SpanID(eventhook.NewSpanID()) }

// text returns a text that users or senders can choose as a value of an attribute: at most 255
// bytes of UTF-8.
func text(s string) string {
	const maxBytes = 255
	if len(s) > maxBytes {
		s = s[:maxBytes]
	}
	if utf8.ValidString(s) {
		return s
	}
	return strings.ToValidUTF8(s, "")
}
