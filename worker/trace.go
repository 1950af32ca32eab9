package worker

import (
	"context"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// startSpan starts the span of an attempt, below the span of the gateway that created the job.
// Without a TracerProvider, the returned context has the span of the gateway.
func startSpan(ctx context.Context, job *Job) (context.Context, trace.Span) {
	ctx = propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier{"traceparent": job.Traceparent})
	return otel.Tracer("github.com/eventhook/eventhook/worker").Start(ctx, "process "+job.Kind, trace.WithSpanKind(trace.SpanKindConsumer),
		trace.WithAttributes(
			attribute.String("messaging.system", "eventhook"), attribute.String("messaging.operation.type", "process"),
			attribute.String("messaging.operation.name", "process"), attribute.String("messaging.destination.name", job.Queue),
			attribute.String("messaging.message.id", job.ID), attribute.String("eventhook.execution_id", job.ID),
			attribute.String("eventhook.kind", job.Kind), attribute.Int("eventhook.attempt", job.Attempt)))
}

// endSpan ends the span of an attempt. A suspended workflow has not failed.
func endSpan(span trace.Span, o outcome) {
	if o.err != nil {
		span.SetAttributes(attribute.String("error.type", "_OTHER"))
		span.SetStatus(codes.Error, o.err.Error())
	}
	span.End()
}
