package tracing

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/ingest"
	"github.com/eventhook/eventhook/internal/effects"
	"github.com/eventhook/eventhook/outbound/send"
)

// discard is a span processor that drops each span.
type discard struct{}

func (discard) OnStart(context.Context, sdktrace.ReadWriteSpan) {}
func (discard) OnEnd(sdktrace.ReadOnlySpan)                     {}
func (discard) Shutdown(context.Context) error                  { return nil }
func (discard) ForceFlush(context.Context) error                { return nil }

// acceptNothing is a store whose commits cost nothing.
type acceptNothing struct{ ingest.Store }

func (acceptNothing) Accept(context.Context, []*effects.Arrival) error { return nil }

// tracedEvent returns a function that does all that is traced of an event with one delivery.
func tracedEvent(s sampler) func() {
	p := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(discard{}), sdktrace.WithIDGenerator(ids{}))
	t := newTracer(settingsFor(s, 10), &fakeCollector{}, resource.Empty(), slog.New(slog.DiscardHandler), time.Now)
	_ = t.Close(context.Background()) // nothing is queued
	t.spans = p.Tracer("test")
	e := &eventhook.Event{ID: eventhook.NewID[eventhook.Event](time.Now()), Status: eventhook.EventDelivered, EventType: "push", SourceSlug: "github",
		Payload: eventhook.Payload{Headers: []byte("Host: x\r\nUser-Agent: x\r\nContent-Type: application/json\r\nContent-Length: 120\r\n")}}
	r := httptest.NewRequest(http.MethodPost, "/api/tenants/acme/eventhook/in/github", nil)
	w := ingest.Webhook{Request: r, Tenant: "acme", Source: "github", Began: time.Now(), Status: http.StatusOK, Outcome: ingest.OutcomeAccepted, Event: e}
	store, batch := Store{acceptNothing{}, t}, []*effects.Arrival{{Event: e}}
	settled := []*effects.Settlement{{Event: e, PlanBegan: time.Now()}}
	a := send.Attempted{Delivery: &eventhook.Delivery{Event: e}, Attempt: 1, Request: r, Result: eventhook.Attempt{StatusCode: http.StatusOK}}
	return func() {
		_ = store.Accept(context.Background(), batch)
		t.Settled(settled)
		t.Received(w)
		t.Attempted(a)
	}
}

// An event whose trace is not sampled costs the decisions.
func TestAllocationsOfAnEvent(t *testing.T) {
	for claim, c := range map[string]struct {
		sampler sampler
		most    float64
	}{"not sampled": {parentBased(never), 0}, "sampled": {parentBased(always), 150}} {
		if n := testing.AllocsPerRun(200, tracedEvent(c.sampler)); n > c.most {
			t.Errorf("%s: an event has %.0f allocations, want at most %.0f", claim, n, c.most)
		} else {
			t.Logf("%s: %.0f allocations", claim, n)
		}
	}
}

func BenchmarkEvent(b *testing.B) {
	for name, s := range map[string]sampler{"unsampled": never, "sampled": always} {
		b.Run(name, func(b *testing.B) {
			f := tracedEvent(s)
			b.ReportAllocs()
			for b.Loop() {
				f()
			}
		})
	}
}
