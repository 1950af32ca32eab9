// Package telemetry provides logs, metrics and the health endpoints. Metrics implements the
// observer interfaces of the packages that do the work. Every metric label has a bounded
// set of values. The package never changes what the gateway does.
//
// Each metric is declared once, in the file of its area. The declaration registers the metric
// and describes it in docs/metrics.md. All metrics exist from the start; the series of known
// label values are 0 until they count something.
package telemetry

import (
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/eventhook/eventhook"
)

// Metrics has the Prometheus metrics of an instance. Safe for concurrent use.
type Metrics struct {
	registry  *registry
	now       func() time.Time
	sampled   func(*eventhook.Event) string // nil: no trace is sampled
	ingest    ingestMetrics
	ingestLog ingestLogMetrics
	consumers map[string]*reading
	events    eventMetrics
	outbound  outboundMetrics
	agents    agentDeliveryMetrics
	queues    queueMetrics
	database  databaseMetrics
	process   processMetrics
	tenants   *tenantMetrics
}

// NewMetrics returns the metrics.
func NewMetrics() *Metrics {
	r := &registry{Registry: prometheus.NewRegistry()}
	m := &Metrics{registry: r, now: time.Now, ingest: newIngestMetrics(r), ingestLog: newIngestLogMetrics(r), consumers: newConsumerMetrics(r),
		events: newEventMetrics(r), outbound: newOutboundMetrics(r), agents: newAgentDeliveryMetrics(r),
		queues: newQueueMetrics(r), database: newDatabaseMetrics(r), process: newProcessMetrics(r), tenants: newTenantMetrics(r)}
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// Families returns the gateway's own metrics in the order of docs/metrics.md.
func (m *Metrics) Families() []Family { return m.registry.families }

// Handler serves the metrics in the format that the client accepts: Prometheus' text format,
// OpenMetrics, which has exemplars, or protocol buffers, which have native histograms too.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{EnableOpenMetrics: true})
}
