package tracing

import (
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/eventhook/eventhook"
)

func TestAttemptsAtBrokersAreRecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &fakeCollector{}
		tracer, _ := tracerTo(c, always)
		e := &eventhook.Event{ID: eventhook.NewID[eventhook.Event](time.Now()), EventType: "push", TraceID: tracedParent}
		d := &eventhook.Delivery{ID: eventhook.DeliveryID{1}, RouteID: eventhook.RouteID{2}, TargetIndex: 3, Event: e}
		tracer.Sent(d, 2, "b-1.example:9092, b-2.example:9092",
			eventhook.Attempt{StartedAt: time.Now(), Duration: time.Second, ErrorClass: eventhook.ErrorAuth, Error: "t0p"})
		if err := tracer.Close(t.Context()); err != nil || len(c.spans) != 1 {
			t.Fatalf("exported %d spans (%v), want 1", len(c.spans), err)
		}
		s := c.spans[0]
		if s.Name() != "deliver to message target" || s.SpanKind() != trace.SpanKindClient || s.EndTime().Sub(s.StartTime()) != time.Second ||
			s.Parent().SpanID() != trace.SpanID(e.Span()) {
			t.Errorf("got %s of kind %s below %s for %s", s.Name(), s.SpanKind(), s.Parent().SpanID(), s.EndTime().Sub(s.StartTime()))
		}
		got := attribute.NewSet(s.Attributes()...)
		for name, want := range map[attribute.Key]string{"server.address": "b-1.example", "server.port": "9092", "error.type": "auth"} {
			if value, _ := got.Value(name); value.String() != want {
				t.Errorf("%s: got %q, want %q", name, value.String(), want)
			}
		}
	})
}
