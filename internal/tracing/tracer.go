package tracing

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/time/rate"
	"google.golang.org/grpc/grpclog"

	"github.com/eventhook/eventhook"
)

// Tracer records and exports the spans of an instance.
type Tracer struct {
	spans    trace.Tracer
	provider *sdktrace.TracerProvider
	sampler  sampler
	queue    *queue
	failures *rate.Limiter
	now      func() time.Time
}

// maxFailures bounds the spans per second of requests that were refused, and of failures in traces
// that are not sampled. Senders without a secret can cause them, and must not displace the spans of
// accepted requests.
const maxFailures = 100

// Open returns the tracer that the OTEL_* variables of the environment describe, or nil if they
// name no endpoint or switch tracing off. The error is one of the configuration. Open makes no
// connection. Close must be called.
func Open(ctx context.Context, version string, log *slog.Logger, now func() time.Time) (*Tracer, error) {
	s, err := readSettings(log)
	if s == nil || err != nil {
		return nil, err
	}
	divertSDKLog(log, now)
	exporter, err := newExporter(ctx, s.protocol)
	if err != nil {
		return nil, fmt.Errorf("the OTEL_EXPORTER_OTLP_* variables: %w", err)
	}
	return newTracer(*s, discreetExporter{exporter, readCredentials()}, describe(ctx, version, log, now), log, now), nil
}

func newTracer(s settings, exporter sdktrace.SpanExporter, of *resource.Resource, log *slog.Logger, now func() time.Time) *Tracer {
	q := newQueue(exporter, s, log, now)
	// The tracer has decided about sampling before a span is started.
	p := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(q), sdktrace.WithResource(of), sdktrace.WithSampler(sdktrace.AlwaysSample()),
		sdktrace.WithIDGenerator(ids{}))
	return &Tracer{p.Tracer("github.com/eventhook/eventhook"), p, s.sampler, q, rate.NewLimiter(maxFailures, maxFailures), now}
}

func newExporter(ctx context.Context, protocol string) (*otlptrace.Exporter, error) {
	if protocol == grpcProtocol {
		grpclog.SetLoggerV2(grpclog.NewLoggerV2(io.Discard, io.Discard, io.Discard)) // the exporter returns the errors, too
		return otlptracegrpc.New(ctx)
	}
	return otlptracehttp.New(ctx, otlptracehttp.WithProxy(proxyOf))
}

// describe returns the resource: the service, with the name and the attributes of
// OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES.
func describe(ctx context.Context, version string, log *slog.Logger, now func() time.Time) *resource.Resource {
	r, err := resource.New(ctx, resource.WithTelemetrySDK(), resource.WithAttributes(semconv.ServiceName("eventhook"),
		semconv.ServiceVersion(version), semconv.ServiceInstanceID(eventhook.NewID[Tracer](now()).String())), resource.WithFromEnv())
	if err != nil {
		log.Warn("OTEL_RESOURCE_ATTRIBUTES cannot be read completely", "error", err)
	}
	return r
}

// ReadTenants sets the function that reads the slugs of tenants. It must be called before the
// first span is recorded.
func (t *Tracer) ReadTenants(read Slugs) { t.queue.tenants.read = read }

// Dropped returns the number of spans that were not exported, because the queue was full or the
// collector did not take them.
func (t *Tracer) Dropped() int64 { return t.queue.dropped.Load() }

// takesFailure reports whether the span of a failure is recorded; see maxFailures.
func (t *Tracer) takesFailure() bool {
	if t.failures.AllowN(t.now(), 1) {
		return true
	}
	t.queue.dropped.Add(1)
	return false
}

// Close exports the spans of the queue. It gives up when ctx ends, or when the collector takes no
// batch for stopPatience.
func (t *Tracer) Close(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	t.queue.giveUpAfter(cancel)
	err := t.provider.Shutdown(ctx)
	if n := t.queue.held.Load(); n > 0 {
		return fmt.Errorf("the collector did not take %d spans in time", n)
	}
	return err
}

// Sampled reports whether the spans of a trace are exported. The trace id has 32 hexadecimal
// digits. flags are those of the sender's traceparent, or "" without one.
func (t *Tracer) Sampled(traceID, flags string) bool {
	return t.sampler(traceOf(traceID), flags)
}
