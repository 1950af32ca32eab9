package tracing

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/resource"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/ingest"
	"github.com/eventhook/eventhook/outbound/send"
)

// A sender chooses headers, a host and a method. Their texts are bounded and valid UTF-8, because
// one that is not makes the collector refuse a batch, and no other header is in a span.
func TestTextsOfSendersAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &fakeCollector{}
		tracer, _ := tracerTo(c, always)
		r := httptest.NewRequest(http.MethodPost, "/api/tenants/acme/eventhook/in/github?token=t0p", nil)
		huge := strings.Repeat("ä\xff", 1<<20)
		r.Method, r.Host = "BREW"+huge, huge
		r.Header = http.Header{"User-Agent": {huge}, "Tracestate": {"vendor=t0p"}, "Baggage": {"user=t0p"}, "Authorization": {"Bearer t0p"},
			"Traceparent": {tracedParent + "-t0p"}}
		e := &eventhook.Event{ID: eventhook.NewID[eventhook.Event](time.Now()), EventType: huge, TraceID: huge}
		tracer.Received(ingest.Webhook{Request: r, Tenant: "acme", Source: "github", Status: http.StatusOK, Event: e, Began: time.Now()})
		if err := tracer.Close(t.Context()); err != nil || len(c.spans) != 1 {
			t.Fatalf("exported %d spans (%v), want 1", len(c.spans), err)
		}
		s := c.spans[0]
		if s.Name() != "HTTP /api/tenants/{tenant}/eventhook/in/{source}" {
			t.Errorf("got the name %q, want one of low cardinality", s.Name())
		}
		for _, a := range s.Attributes() {
			text := a.Value.AsString()
			if a.Value.Type() == attribute.STRING && (len(text) > 255 || !utf8.ValidString(text) || strings.Contains(text, "t0p")) {
				t.Errorf("%s has %d bytes: %.40q; want at most 255 of UTF-8 without a secret", a.Key, len(text), text)
			}
		}
	})
}

const tracedParent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

// A flood of refused requests, whatever their traceparents say, and of failures that are not
// sampled, leaves room for other spans.
func TestFailuresAreLimited(t *testing.T) {
	d := &eventhook.Delivery{Event: &eventhook.Event{ID: eventhook.NewID[eventhook.Event](time.Now())}}
	r := httptest.NewRequest(http.MethodPost, "/", nil)
	r.Header.Set("Traceparent", tracedParent)
	for claim, c := range map[string]struct {
		sampler sampler
		fail    func(*Tracer)
	}{
		"refused webhooks, sampled": {always, func(x *Tracer) {
			x.Received(ingest.Webhook{Request: r, Status: http.StatusUnauthorized, Outcome: ingest.OutcomeUnverified})
		}},
		"refused webhooks, not sampled": {never, func(x *Tracer) {
			x.Received(ingest.Webhook{Request: r, Status: http.StatusUnauthorized, Outcome: ingest.OutcomeUnverified})
		}},
		"refused requests to the API": {always, func(x *Tracer) {
			q, _ := x.Begin(r)
			q.End(r, "/events", "acme", http.StatusUnauthorized)
		}},
		"attempts, not sampled": {never, func(x *Tracer) {
			x.Attempted(send.Attempted{Delivery: d, Attempt: 1, Result: eventhook.Attempt{ErrorClass: eventhook.ErrorHTTP5xx, StatusCode: http.StatusBadGateway}})
		}},
		"attempts at brokers, not sampled": {never, func(x *Tracer) {
			x.Sent(d, 1, "nats.example:4222", eventhook.Attempt{ErrorClass: eventhook.ErrorRefused})
		}},
	} {
		synctest.Test(t, func(t *testing.T) {
			collector := &fakeCollector{}
			tracer := newTracer(settingsFor(c.sampler, 10_000), collector, resource.Empty(), slog.New(slog.DiscardHandler), time.Now)
			for range 2 {
				for range 5 * maxFailures {
					c.fail(tracer)
				}
				time.Sleep(time.Second)
			}
			if err := tracer.Close(t.Context()); err != nil || len(collector.spans) != 2*maxFailures || tracer.Dropped() != 8*maxFailures {
				t.Errorf("%s: exported %d and dropped %d in 2 seconds (%v), want %d and %d", claim, len(collector.spans), tracer.Dropped(), err,
					2*maxFailures, 8*maxFailures)
			}
		})
	}
}
