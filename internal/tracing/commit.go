package tracing

import (
	"context"
	"time"

	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/ingest"
	"github.com/eventhook/eventhook/internal/effects"
	"github.com/eventhook/eventhook/outbound"
)

// Store is an ingest.Store whose commits are recorded.
type Store struct {
	ingest.Store
	Tracer *Tracer
}

// Accept implements ingest.Store.
func (s Store) Accept(ctx context.Context, batch []*effects.Arrival) error {
	c := s.Tracer.beginCommit(len(batch))
	err := s.Store.Accept(ctx, batch)
	for _, a := range batch {
		c.add(a.Event, err != nil || a.Event.Status == "")
	}
	c.end("commit events", err)
	return err
}

// PublishStore is an outbound.PublishStore whose commits are recorded.
type PublishStore struct {
	outbound.PublishStore
	Tracer *Tracer
}

// Publish implements outbound.PublishStore.
func (s PublishStore) Publish(ctx context.Context, batch []*outbound.PublishItem) error {
	c := s.Tracer.beginCommit(len(batch))
	err := s.PublishStore.Publish(ctx, batch)
	for _, x := range batch {
		if err != nil || !x.IsStale {
			c.add(x.Event, err != nil || x.Event.Status == "")
		}
	}
	c.end("commit published events", err)
	return err
}

// commit is a span of a batch in a trace of its own, with links to a span of each of its events
// whose trace is sampled.
type commit struct {
	*Tracer
	began time.Time
	size  int
	of    trace.TraceID
	id    trace.SpanID
	parts []span

	isSampled bool // an event
}

func (t *Tracer) beginCommit(size int) commit {
	return commit{Tracer: t, began: t.now(), size: size}
}

// add adds an event of the batch.
func (c *commit) add(e *eventhook.Event, hasFailed bool) {
	of := traceOfEvent(e)
	if !c.sampler(of, e.TraceFlags()) {
		return
	}
	if !c.isSampled {
		c.isSampled, c.of, c.id = true, newTrace(), newSpan()
	}
	if hasFailed {
		return // the request failed, too, and its span has another id
	}
	s := span{name: "store event", kind: trace.SpanKindInternal, trace: of, id: newSpan(), parent: trace.SpanID(e.Span()), began: c.began,
		attributes: eventAttributes(e), links: []trace.Link{linkTo(c.of, c.id)}}
	c.parts = append(c.parts, s)
}

// commitFailure is the error.type of a commit that has failed. The log has the reason.
const commitFailure = "commit_failed"

// end records the spans, unless no event of the batch is sampled.
func (c *commit) end(name string, err error) {
	if !c.isSampled {
		return
	}
	ended := c.now()
	whole := span{name: name, kind: trace.SpanKindInternal, trace: c.of, id: c.id, began: c.began, ended: ended}
	whole.attributes = append(whole.attributes, semconv.MessagingSystemKey.String(system), semconv.MessagingBatchMessageCount(c.size))
	if err != nil {
		whole.failure = commitFailure
	}
	for _, s := range c.parts {
		s.ended = ended
		c.record(s)
		whole.links = append(whole.links, linkTo(s.trace, s.id))
	}
	c.record(whole)
}
