package telemetry_test

import (
	"io"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/telemetry"
)

// scrape returns the metrics in the format that a client accepts.
func scrape(m *telemetry.Metrics, accept string) *httptest.ResponseRecorder {
	r := httptest.NewRequest("GET", "/metrics", nil)
	r.Header.Set("Accept", accept)
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, r)
	return w
}

func TestExemplarsNameSampledTraces(t *testing.T) {
	m := telemetry.NewMetrics()
	m.WatchSampling(func(e *eventhook.Event) string { return e.TraceID })
	m.Started(&eventhook.Delivery{Event: &eventhook.Event{TraceID: "4bf92f3577b34da6a3ce929d0e0e4736"}}, time.Second)
	m.Started(&eventhook.Delivery{Event: &eventhook.Event{}}, time.Second)
	text := scrape(m, "application/openmetrics-text; version=1.0.0").Body.String()
	if n := strings.Count(text, `# {trace_id="4bf92f3577b34da6a3ce929d0e0e4736"} 1.0`); n != 1 {
		t.Errorf("found %d exemplars, want 1, of the sampled trace", n)
	}
}

// A client that accepts protocol buffers gets the native buckets of the latencies, and the classic
// ones for a Prometheus that does not store native buckets.
func TestLatenciesHaveNativeAndClassicBuckets(t *testing.T) {
	m := telemetry.NewMetrics()
	m.Started(&eventhook.Delivery{}, time.Second)
	w := scrape(m, string(expfmt.NewFormat(expfmt.TypeProtoDelim)))
	families := map[string]*dto.MetricFamily{}
	decoder := expfmt.NewDecoder(w.Body, expfmt.ResponseFormat(w.Header()))
	for {
		f := &dto.MetricFamily{}
		if err := decoder.Decode(f); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		families[f.GetName()] = f
	}
	latencies := 0
	for _, f := range m.Families() {
		if f.Type != telemetry.Latency {
			continue
		}
		latencies++
		for _, s := range families[f.FullName()].GetMetric() {
			if h := s.GetHistogram(); h.Schema == nil || len(h.GetBucket()) == 0 {
				t.Errorf("%s has the native schema %v and %d classic buckets, want both", f.Name, h.Schema, len(h.GetBucket()))
			}
		}
	}
	delay := families["eventhook_delivery_delay_seconds"].GetMetric()[0].GetHistogram()
	if latencies < 4 || len(delay.GetPositiveSpan()) != 1 || delay.GetSampleCount() != 1 {
		t.Errorf("found %d latencies, and one delay became %v; want one native bucket", latencies, delay)
	}
}
