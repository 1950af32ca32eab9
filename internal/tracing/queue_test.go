package tracing

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/eventhook/eventhook"
)

// fakeCollector is an exporter. It takes its time, waits for hold, if that is not nil, whatever its
// context says, and returns fails.
type fakeCollector struct {
	mu    sync.Mutex
	takes time.Duration
	hold  chan struct{}
	fails error
	spans []sdktrace.ReadOnlySpan
}

func (c *fakeCollector) ExportSpans(_ context.Context, spans []sdktrace.ReadOnlySpan) error {
	time.Sleep(c.takes)
	if c.hold != nil {
		<-c.hold
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.fails == nil {
		c.spans = append(c.spans, spans...)
	}
	return c.fails
}

func (c *fakeCollector) Shutdown(context.Context) error { return nil }

func (c *fakeCollector) set(fails error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fails = fails
}

// tracerTo returns a tracer with a queue of 10 spans, and its log.
func tracerTo(c sdktrace.SpanExporter, s sampler) (*Tracer, *strings.Builder) {
	logs := &strings.Builder{}
	log := slog.New(slog.NewTextHandler(logs, nil))
	return newTracer(settingsFor(s, 10), c, resource.Empty(), log, time.Now), logs
}

// settingsFor returns settings with a queue of that many spans.
func settingsFor(s sampler, queue int) settings {
	return settings{sampler: s, queue: queue, batch: 2, delay: defaultDelay * time.Millisecond, timeout: defaultTimeout * time.Millisecond}
}

func (t *Tracer) recordMany(n int) {
	for range n {
		t.record(span{name: "test", trace: newTrace(), id: newSpan(), began: t.now(), ended: t.now()})
	}
}

const longWait = time.Minute // longer than each interval of the queue

// A collector that takes nothing costs 10 spans of memory. The spans beyond them are dropped at
// once, are counted, and have a line in the log each minute.
func TestAFullQueueDropsSpans(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &fakeCollector{hold: make(chan struct{})}
		tracer, logs := tracerTo(c, always)
		tracer.recordMany(25)
		time.Sleep(longWait) // the exporter has a batch
		tracer.recordMany(5)
		synctest.Wait()
		if n := strings.Count(logs.String(), "spans are dropped"); tracer.Dropped() != 20 || n != 2 {
			t.Errorf("dropped %d spans with %d lines in the log, want 20 and 2:\n%s", tracer.Dropped(), n, logs)
		}
		close(c.hold)
		if err := tracer.Close(t.Context()); err != nil || len(c.spans) != 10 {
			t.Errorf("exported %d spans (%v), want those that were in the queue", len(c.spans), err)
		}
	})
}

// Spans that the collector refuses do not stay in the queue. The log has a line when that begins,
// and one when it ends.
func TestRefusedSpansAreDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &fakeCollector{fails: errors.New("refused")}
		tracer, logs := tracerTo(c, always)
		for range 3 {
			tracer.recordMany(8)
			time.Sleep(longWait)
		}
		c.set(nil)
		tracer.recordMany(8)
		if err := tracer.Close(t.Context()); err != nil || len(c.spans) != 8 || tracer.Dropped() != 24 {
			t.Errorf("exported %d spans and dropped %d (%v), want 8 and 24", len(c.spans), tracer.Dropped(), err)
		}
		if strings.Count(logs.String(), "cannot be exported") != 1 || strings.Count(logs.String(), "exported again") != 1 {
			t.Errorf("want one line when exporting fails and one when it succeeds again:\n%s", logs)
		}
	})
}

// A collector that takes every second batch does not fill the log.
func TestAFlappingCollectorIsTwoLinesAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &fakeCollector{}
		tracer, logs := tracerTo(c, always)
		time.Sleep(time.Second) // the collector changes between two batches
		for n := range 20 {     // 5 s for a batch: 100 s
			c.set(nil)
			if n%2 == 0 {
				c.set(errors.New("refused"))
			}
			tracer.recordMany(1)
			time.Sleep(5 * time.Second)
		}
		if err := tracer.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if failing, again := strings.Count(logs.String(), "cannot be exported"), strings.Count(logs.String(), "exported again"); failing != 2 || again != 2 {
			t.Errorf("%d lines that exporting fails, and %d that it succeeds, want 2 in two minutes:\n%s", failing, again, logs)
		}
	})
}

// A collector that never answers delays a stop by a second, one that is slow until all spans are
// exported or the timeout ends. The error has the number of spans that were lost.
func TestCloseWaitsWhileTheCollectorTakesSpans(t *testing.T) {
	for claim, c := range map[string]struct {
		takes time.Duration // for a batch; 0: forever
		want  time.Duration
		fault string
	}{
		"hangs":                    {0, stopPatience, "7 spans"},
		"is slow":                  {800 * time.Millisecond, 3200 * time.Millisecond, ""},
		"is slower than a timeout": {900 * time.Millisecond, 3500 * time.Millisecond, "1 spans"},
	} {
		synctest.Test(t, func(t *testing.T) {
			x := &fakeCollector{takes: c.takes, hold: make(chan struct{})}
			if c.takes > 0 {
				close(x.hold)
			}
			tracer, _ := tracerTo(x, always)
			tracer.recordMany(7)
			ctx, cancel := context.WithTimeout(t.Context(), 3500*time.Millisecond)
			defer cancel()
			began := time.Now()
			err := tracer.Close(ctx)
			if took := time.Since(began); took != c.want || (err != nil) != (c.fault != "") || err != nil && !strings.Contains(err.Error(), c.fault) {
				t.Errorf("%s: Close took %s and returned %v, want %s and %q", claim, took, err, c.want, c.fault)
			}
			if c.takes == 0 {
				close(x.hold)
			}
			time.Sleep(longWait) // the abandoned exports end
		})
	}
}

// The slugs of tenants are read once for each tenant. Spans are exported without them if they
// cannot be read.
func TestSpansGetTheSlugsOfTenants(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &fakeCollector{}
		tracer, _ := tracerTo(c, always)
		tenant, reads := eventhook.NewID[eventhook.Tenant](time.Now()), 0
		tracer.ReadTenants(func(context.Context, []eventhook.TenantID) (map[eventhook.TenantID]string, error) {
			if reads++; reads == 1 {
				return nil, errors.New("no database")
			}
			return map[eventhook.TenantID]string{tenant: "acme"}, nil
		})
		for range 3 {
			e := eventhook.Event{ID: eventhook.NewID[eventhook.Event](time.Now()), TenantID: tenant}
			tracer.record(span{name: "test", trace: traceOfEvent(&e), id: newSpan(), attributes: eventAttributes(&e)})
			time.Sleep(longWait)
		}
		if err := tracer.Close(t.Context()); err != nil {
			t.Error(err)
		}
		var got []string
		for _, s := range c.spans {
			slug := ""
			for _, a := range s.Attributes() {
				if a.Key == tenantKey {
					slug = a.Value.AsString()
				}
			}
			got = append(got, slug)
		}
		if strings.Join(got, ",") != ",acme,acme" || reads != 2 {
			t.Errorf("got the slugs %q by %d reads, want none, acme and acme by 2 reads", got, reads)
		}
	})
}
