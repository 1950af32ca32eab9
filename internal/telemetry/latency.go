package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/eventhook/eventhook"
)

// WatchSampling sets the function that returns the trace id of an event whose trace is
// sampled, otherwise "". The latencies of such events have the trace id as an exemplar.
// sampled must be safe for concurrent use. WatchSampling must be called before the first
// observation.
func (m *Metrics) WatchSampling(sampled func(*eventhook.Event) string) { m.sampled = sampled }

// observe adds the latency of an event, which may be nil. The clocks of instances differ, so a
// negative latency counts as 0.
func (m *Metrics) observe(h prometheus.Histogram, latency time.Duration, e *eventhook.Event) {
	seconds := max(0, latency).Seconds()
	if m.sampled != nil && e != nil {
		if trace := m.sampled(e); trace != "" {
			if h, ok := h.(prometheus.ExemplarObserver); ok {
				h.ObserveWithExemplar(seconds, prometheus.Labels{"trace_id": trace})
				return
			}
		}
	}
	h.Observe(seconds)
}
