package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/eventhook/eventhook/ingest"
)

// ingestLogMetrics describe the log of webhooks in front of the database. They are 0 without one.
type ingestLogMetrics struct {
	appends  *children[prometheus.Observer]
	ready    *reading
	backlog  *reading
	bytes    *reading
	maxBytes *reading
	oldest   *reading
	dead     *reading
	stored   prometheus.Counter
	refused  prometheus.Counter
	buried   prometheus.Counter
	closed   prometheus.Counter
}

func newIngestLogMetrics(r *registry) ingestLogMetrics {
	r.section("The log of webhooks")
	return ingestLogMetrics{
		appends: r.histograms(Family{Name: "ingest_log_append_seconds", Help: "Time until the log of webhooks has acknowledged an event, by outcome.",
			Look:   "senders report timeouts or 503. `full`: the log has reached `ingest.log.max_bytes`. `unavailable`: its servers do not answer. `too_large`: the event was stored without the log.",
			Labels: []Label{{Name: "outcome", Values: ingest.LogOutcomes}}}, commitBuckets),
		ready: r.gaugeReading(Family{Name: "ingest_log_ready", Help: "1 if the log of webhooks takes events; 0 if it does not, or if there is none.",
			Look: "webhooks are answered 503. The log of the instance has the reason."}),
		backlog: r.gaugeReading(Family{Name: "ingest_log_backlog_events", Help: "Accepted events in the log of webhooks that are not in the database yet.",
			Look: "events appear late. The database is down, or slower than the webhooks arrive."}),
		bytes: r.gaugeReading(Family{Name: "ingest_log_backlog_bytes", Help: "Size of the backlog in the log of webhooks.",
			Look: "it nears `ingest_log_max_bytes`: at the bound webhooks are answered 503."}),
		maxBytes: r.gaugeReading(Family{Name: "ingest_log_max_bytes", Help: "Bound of the log of webhooks.", Look: "`ingest_log_backlog_bytes` rises."}),
		oldest: r.gaugeReading(Family{Name: "ingest_log_oldest_seconds", Help: "Age of the oldest accepted event that is not in the database yet.",
			Look: "events appear late."}),
		dead: r.gaugeReading(Family{Name: "ingest_log_dead_messages", Help: "Webhooks in the log that the database refuses, and which wait for a person.",
			Look: "it is not 0: docs/scaling.md says how to read them."}),
		stored: r.counter(Family{Name: "ingest_log_stored_total", Help: "Events that this instance took from the log of webhooks and that are in the database, or whose tenants are closed.",
			Look: "`ingest_log_backlog_events` does not fall."}),
		refused: r.counter(Family{Name: "ingest_log_refused_total", Help: "Events that this instance took from the log of webhooks and that the database refused; they are taken again.",
			Look: "it rises: the log of the instance has the error of the database."}),
		buried: r.counter(Family{Name: "ingest_log_dead_total", Help: "Events that this instance moved to the dead messages of the log of webhooks.",
			Look: "it rises: `ingest_log_dead_messages`."}),
		closed: r.counter(Family{Name: "ingest_log_closed_total", Help: "Events that this instance took from the log of webhooks and did not store, because their tenants were closed meanwhile.",
			Look: "a tenant was closed while webhooks waited in the log."}),
	}
}

// LogAppended counts an append to the log of webhooks, with one of ingest.LogOutcomes.
func (m *Metrics) LogAppended(outcome string, took time.Duration) {
	m.ingestLog.appends.of(outcome).Observe(took.Seconds())
}

// LogStored implements natslog.Metrics.
func (m *Metrics) LogStored(events, stored int) {
	m.ingestLog.stored.Add(float64(stored))
	m.ingestLog.refused.Add(float64(events - stored))
}

// LogDead implements natslog.Metrics.
func (m *Metrics) LogDead(n int) { m.ingestLog.buried.Add(float64(n)) }

// LogClosed counts events of closed tenants that were not stored.
func (m *Metrics) LogClosed(events int) { m.ingestLog.closed.Add(float64(events)) }

// WatchIngestLog sets the functions that say whether the log of webhooks takes events, and what waits
// in it. Each scrape calls them.
func (m *Metrics) WatchIngestLog(ready func() error, state func() (ingest.LogState, bool)) {
	l := &m.ingestLog
	read := func(of func(ingest.LogState) float64) func() float64 {
		return func() float64 {
			s, ok := state()
			if !ok {
				return 0
			}
			return of(s)
		}
	}
	l.ready.from(func() float64 {
		if ready() != nil {
			return 0
		}
		return 1
	})
	l.backlog.from(read(func(s ingest.LogState) float64 { return float64(s.Messages) }))
	l.bytes.from(read(func(s ingest.LogState) float64 { return float64(s.Bytes) }))
	l.maxBytes.from(read(func(s ingest.LogState) float64 { return float64(s.MaxBytes) }))
	l.dead.from(read(func(s ingest.LogState) float64 { return float64(s.Dead) }))
	l.oldest.from(read(func(s ingest.LogState) float64 {
		if s.OldestAt.IsZero() {
			return 0
		}
		return max(0, s.ReadAt.Sub(s.OldestAt).Seconds())
	}))
}
