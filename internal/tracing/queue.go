package tracing

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// queue bounds the spans that wait for the exporter and counts the dropped ones. It is the span
// processor of the tracer, and the exporter of the SDK's batch processor, which is behind it.
type queue struct {
	sdktrace.SpanProcessor // the batch processor
	exporter               sdktrace.SpanExporter
	tenants                *tenants
	limit                  int64
	held                   atomic.Int64 // spans in the batch processor
	dropped                atomic.Int64
	log                    *slog.Logger
	now                    func() time.Time

	mu              sync.Mutex
	isFailing       bool // the last export failed
	isFailureLogged bool // and the log has no line that exporting succeeds again
	failureLineAt   time.Time
	fullLineAt      time.Time
	patience        *time.Timer // of a stop; nil before it
}

// newQueue returns a queue of at most s.queue spans in front of an exporter.
func newQueue(exporter sdktrace.SpanExporter, s settings, log *slog.Logger, now func() time.Time) *queue {
	q := &queue{exporter: exporter, tenants: newTenants(), limit: int64(s.queue), log: log, now: now}
	q.SpanProcessor = sdktrace.NewBatchSpanProcessor(batchExporter{q}, sdktrace.WithMaxQueueSize(s.queue), sdktrace.WithMaxExportBatchSize(s.batch),
		sdktrace.WithBatchTimeout(s.delay), sdktrace.WithExportTimeout(s.timeout))
	return q
}

// OnEnd queues a span, or drops it if the queue is full. It does not block.
func (q *queue) OnEnd(s sdktrace.ReadOnlySpan) {
	if q.held.Add(1) <= q.limit {
		q.SpanProcessor.OnEnd(s)
		return
	}
	q.held.Add(-1)
	q.dropped.Add(1)
	q.logFull()
}

// logInterval is the minimum time between two lines about a full queue.
const logInterval = time.Minute

func (q *queue) logFull() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if now := q.now(); !q.isFailing && now.Sub(q.fullLineAt) >= logInterval {
		q.fullLineAt = now
		q.log.Warn("more spans are recorded than the collector takes; spans are dropped", "dropped", q.dropped.Load())
	}
}

// stopPatience is how long a stop waits for the collector to take a batch. A collector that is down
// delays the stop for no longer, and one that works takes the batches of a full queue.
const stopPatience = time.Second

// giveUpAfter calls giveUp once the collector has taken no batch for stopPatience.
func (q *queue) giveUpAfter(giveUp func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.patience = time.AfterFunc(stopPatience, giveUp)
}

// batchExporter is the exporter of a queue's batch processor.
type batchExporter struct{ *queue }

// ExportSpans exports a batch. Spans that the collector does not take are dropped and counted.
// The error is always nil, because it was logged.
func (b batchExporter) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	err := b.exporter.ExportSpans(ctx, b.tenants.name(ctx, spans))
	b.held.Add(-int64(len(spans)))
	if err != nil {
		b.dropped.Add(int64(len(spans)))
	}
	b.ended(err)
	return nil
}

func (b batchExporter) Shutdown(ctx context.Context) error { return b.exporter.Shutdown(ctx) }

// ended notes the end of an export. It writes a line when exporting begins to fail, and one when it
// succeeds again. A collector that takes some batches and refuses others has these lines once in a
// logInterval.
func (q *queue) ended(err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case err != nil && !q.isFailureLogged && q.now().Sub(q.failureLineAt) >= logInterval:
		q.isFailureLogged, q.failureLineAt = true, q.now()
		q.log.Warn("spans cannot be exported; they are dropped until the collector takes them", "error", err)
	case err == nil && q.isFailureLogged:
		q.isFailureLogged = false
		q.log.Info("spans are exported again", "dropped", q.dropped.Load())
	}
	if q.isFailing = err != nil; !q.isFailing && q.patience != nil {
		q.patience.Reset(stopPatience)
	}
}
