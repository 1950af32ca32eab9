package worker

import (
	"errors"
	"testing"

	"go.opentelemetry.io/otel"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
)

var tracedJob = &Job{ID: "1", Kind: "build", Queue: "ci", Attempt: 2, Traceparent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}

// Without a TracerProvider, a handler's context has the span of the gateway. With one, the worker
// records a span below it.
func TestAHandlerContinuesTheTrace(t *testing.T) {
	ctx, span := startSpan(t.Context(), tracedJob)
	endSpan(span, outcome{})
	if got := trace.SpanContextFromContext(ctx); got.SpanID().String() != "00f067aa0ba902b7" || !got.IsSampled() {
		t.Errorf("without a provider the context has %v, want the span of the gateway", got)
	}
	recorder, before := tracetest.NewSpanRecorder(), otel.GetTracerProvider()
	otel.SetTracerProvider(sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder)))
	t.Cleanup(func() { otel.SetTracerProvider(before) })
	_, span = startSpan(t.Context(), tracedJob)
	endSpan(span, outcome{err: errors.New("no")})
	all := recorder.Ended()
	if len(all) != 1 {
		t.Fatalf("got %d spans, want 1", len(all))
	}
	if s := all[0]; s.Name() != "process build" || s.Parent().SpanID().String() != "00f067aa0ba902b7" ||
		s.SpanContext().TraceID().String() != "4bf92f3577b34da6a3ce929d0e0e4736" || s.Status().Description != "no" {
		t.Errorf("got %s below %v with %+v, want a failed span below the gateway's", s.Name(), s.Parent(), s.Status())
	}
}
