package telemetry

import (
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/eventhook/eventhook/ingest"
	"github.com/eventhook/eventhook/internal/effects"
)

// ingestMetrics count requests to the ingest URL and commits of accepted webhooks.
type ingestMetrics struct {
	requests     *counters
	unverified   *counters
	batchEvents  prometheus.Histogram
	batchSeconds prometheus.Histogram
	batchFailed  prometheus.Counter
	committed    prometheus.Histogram
	waiting      *reading
	held         *reading
}

// commitBuckets are the buckets of the time that a transaction takes.
var commitBuckets = prometheus.ExponentialBuckets(0.0005, 2, 14)

func newIngestMetrics(r *registry) ingestMetrics {
	r.section("Accepting webhooks")
	return ingestMetrics{
		requests: r.counters(Family{Name: "ingest_requests_total", Help: "Requests to the ingest URL, by outcome.",
			Look: "webhooks are missing, or senders report errors. The outcome says which check refused the request.",
			Note: outcomesNote(), Labels: []Label{{Name: "outcome", Values: outcomes(nil)}}}),
		unverified: r.counters(Family{Name: "ingest_unverified_total", Help: "Requests to the ingest URL that could not be verified, by reason.",
			Look:   "`ingest_requests_total{outcome=\"unverified\"}` rises: `mismatch` for one source usually means that its secret was changed on one side only.",
			Labels: []Label{{Name: "reason", Values: ingest.Reasons()}}}),
		batchEvents: r.histogram(Family{Name: "accept_batch_events", Help: "Accepted events in one commit.",
			Look: "the database is busy: batches grow with the load, so that the number of commits stays low."}, prometheus.ExponentialBuckets(1, 2, 10)),
		batchSeconds: r.histogram(Family{Name: "accept_commit_seconds", Help: "Time of one commit of accepted events.",
			Look: "`received_to_committed_seconds` rises. If this metric rises as well, the database is slow; otherwise webhooks wait in the gateway."}, commitBuckets),
		batchFailed: r.counter(Family{Name: "accept_failed_total", Help: "Commits of accepted events that failed.",
			Look: "senders get 500. The log has the error of the database."}),
		committed: r.latency(Family{Name: "received_to_committed_seconds", Help: "Time from the receipt of a webhook to its commit. The sender gets its answer then.",
			Look: "senders report timeouts."}),
		waiting: r.gaugeReading(Family{Name: "accept_waiting_events", Help: "Accepted events that wait for their commit or are being committed.",
			Look: "`ingest_requests_total{outcome=\"shed\"}` rises: the queue before the commit has a bound (`ingest.queue_events`)."}),
		held: r.gaugeReading(Family{Name: "ingest_held_bytes", Help: "Memory that requests to the ingest URL use: bodies, their copies and decoded forms.",
			Look: "requests are shed or evicted: the bound is `ingest.in_flight_bytes`."}),
	}
}

// outcomes returns the outcomes of requests that holds selects, all if holds is nil.
func outcomes(holds func(ingest.Outcome) bool) (names []string) {
	for _, o := range ingest.Outcomes() {
		if holds == nil || holds(o) {
			names = append(names, string(o))
		}
	}
	return names
}

// outcomesNote says for the page which outcomes are whose fault.
func outcomesNote() string {
	list := func(holds func(ingest.Outcome) bool) string { return "`" + strings.Join(outcomes(holds), "`, `") + "`" }
	return "Accepted by the gateway: " + list(ingest.Outcome.IsSuccess) + ".\n\nFaults of the gateway: " + list(ingest.Outcome.IsFault) +
		". The objective for accepting webhooks counts these as errors, and the accepted requests and these as all requests.\n\n" +
		"All other outcomes are answers to the request itself, to the limits of its source, client or tenant, or to a provider whose keys cannot be fetched. " +
		"They are no errors of the gateway."
}

// WatchWaiting sets the function that counts the accepted events that wait for their commit.
// Each scrape calls it.
func (m *Metrics) WatchWaiting(waiting func() int) { m.ingest.waiting.fromInt(waiting) }

// WatchIngestMemory sets the function that counts the bytes that requests to the ingest URL
// use. Each scrape calls it.
func (m *Metrics) WatchIngestMemory(held func() int) { m.ingest.held.fromInt(held) }

// Answered counts a request to the ingest URL. reason is "" unless verification failed.
func (m *Metrics) Answered(outcome ingest.Outcome, reason string) {
	m.ingest.requests.of(string(outcome)).Inc()
	if reason != "" {
		m.ingest.unverified.of(reason).Inc()
	}
}

// stored returns the arrivals of a committed batch that the database did not refuse.
func stored(batch []*effects.Arrival) []*effects.Arrival {
	isRefused := func(a *effects.Arrival) bool { return a.Event.Status == "" }
	if !slices.ContainsFunc(batch, isRefused) {
		return batch
	}
	return slices.DeleteFunc(slices.Clone(batch), isRefused)
}

// Committed counts a commit of accepted events.
func (m *Metrics) Committed(batch []*effects.Arrival, took time.Duration, err error) {
	m.ingest.batchEvents.Observe(float64(len(batch)))
	m.ingest.batchSeconds.Observe(took.Seconds())
	if err != nil {
		m.ingest.batchFailed.Inc()
		return
	}
	batch = stored(batch)
	addTenants(m.tenants, batch, func(a *effects.Arrival) tenantCount { return tenantCount{tenant: a.Event.TenantID} })
	now := m.now()
	for _, a := range batch {
		m.observe(m.ingest.committed, now.Sub(a.Event.ID.Time()), a.Event)
	}
}
