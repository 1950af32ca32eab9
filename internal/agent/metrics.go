package agent

import (
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/eventhook/eventhook"
)

// The outcomes of requests besides the classes of errors.
const (
	outcomeSuccess = "success" // a status of 2xx
	outcomeStatus  = "status"  // another status
	outcomeUnsent  = "unsent"  // no result: the agent stopped, or the lease ended
)

// The outcomes of reports.
const (
	reportAccepted = "accepted"
	reportLost     = "lost"
	reportRejected = "rejected"
	reportExpired  = "expired" // the gateway stored no result before the lease ended or the agent stopped
)

// The outcomes of claims.
const (
	claimItems = "deliveries"
	claimEmpty = "empty"
	claimError = "error"
)

func outcomeOf(status int) string {
	if status/100 == http.StatusOK/100 {
		return outcomeSuccess
	}
	return outcomeStatus
}

// metrics are the metrics of an agent. The series exist from the start.
type metrics struct {
	registry *prometheus.Registry
	requests map[string]prometheus.Counter
	reports  map[string]prometheus.Counter
	claims   map[string]prometheus.Counter
	items    prometheus.Counter
	seconds  prometheus.Histogram
}

const namespace = "eventhook_agent"

func newMetrics(a *Agent) *metrics {
	m := &metrics{registry: prometheus.NewRegistry()}
	outcomes := []string{outcomeSuccess, outcomeStatus, outcomeUnsent}
	for _, class := range eventhook.AgentErrorClasses {
		outcomes = append(outcomes, string(class))
	}
	m.requests = m.counters("requests_total", "Requests to destinations, by outcome: success (2xx), status (another status), unsent (no result, because the agent stopped or the lease ended), or the class of an error.", outcomes)
	m.reports = m.counters("reports_total", "Results of deliveries, by the answer of the gateway; expired: the gateway stored none in time.", []string{reportAccepted, reportLost, reportRejected, reportExpired})
	m.claims = m.counters("claims_total", "Claims, by outcome.", []string{claimItems, claimEmpty, claimError})
	m.items = prometheus.NewCounter(prometheus.CounterOpts{Namespace: namespace, Name: "claimed_deliveries_total", Help: "Deliveries that the agent has leased."})
	m.seconds = prometheus.NewHistogram(prometheus.HistogramOpts{Namespace: namespace, Name: "request_duration_seconds", Help: "Duration of requests to destinations.",
		Buckets: []float64{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60}})
	m.registry.MustRegister(m.items, m.seconds, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m.gauge("running", "Requests that run.", func() float64 { return float64(a.requests.Load()) })
	m.gauge("slots", "Maximum number of requests at once.", func() float64 { return float64(a.config.Concurrency) })
	m.gauge("unreported", "Results that the gateway has not stored yet.", func() float64 { return float64(a.reports.Waiting()) })
	m.gauge("last_claim_timestamp_seconds", "When the gateway last answered a claim, in seconds since 1970; 0 before the first answer.", func() float64 {
		return secondsOf(a.state.lastClaim())
	})
	build := prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: namespace, Name: "build_info", Help: "1, with the version of the program as label."}, []string{"version"})
	build.WithLabelValues(a.config.Version).Set(1)
	m.registry.MustRegister(build)
	return m
}

// secondsOf returns a time in seconds since 1970; 0 for the zero time.
func secondsOf(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return float64(t.UnixMilli()) / float64(time.Second/time.Millisecond)
}

// counters registers a counter with the label outcome, and returns its series.
func (m *metrics) counters(name, help string, outcomes []string) map[string]prometheus.Counter {
	v := prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help}, []string{"outcome"})
	m.registry.MustRegister(v)
	all := make(map[string]prometheus.Counter, len(outcomes))
	for _, o := range outcomes {
		all[o] = v.WithLabelValues(o)
	}
	return all
}

func (m *metrics) gauge(name, help string, read func() float64) {
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Namespace: namespace, Name: name, Help: help}, read))
}

// watchCertificate registers the expiry of the certificate of the agent.
func (m *metrics) watchCertificate(expiresAt func() time.Time) {
	m.gauge("tls_certificate_expiry_seconds", "When the client certificate expires, in seconds since 1970.", func() float64 { return secondsOf(expiresAt()) })
}

// sent counts a request. An unknown outcome counts as a broken connection.
func (m *metrics) sent(outcome string, took time.Duration) {
	c, ok := m.requests[outcome]
	if !ok {
		c = m.requests[string(eventhook.ErrorClosed)]
	}
	c.Inc()
	m.seconds.Observe(took.Seconds())
}

func (m *metrics) reported(outcome string) { m.reports[outcome].Inc() }

func (m *metrics) claimed(n int, err error) {
	switch {
	case err != nil:
		m.claims[claimError].Inc()
	case n == 0:
		m.claims[claimEmpty].Inc()
	default:
		m.claims[claimItems].Inc()
		m.items.Add(float64(n))
	}
}

func (m *metrics) handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
}
