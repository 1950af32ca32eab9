// Package telemetry provides logs, metrics and the health endpoints. Metrics implements the
// observer interfaces of the packages that do the work. Every metric label has a bounded
// set of values. The package never changes what the gateway does.
package telemetry

import (
	"context"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/cpushare"
	"github.com/eventhook/eventhook/internal/effects"
)

// Metrics has the Prometheus metrics of an instance. Safe for concurrent use.
type Metrics struct {
	registry *prometheus.Registry

	requests     *prometheus.CounterVec
	unverified   *prometheus.CounterVec
	answered     map[string]prometheus.Counter
	batchEvents  prometheus.Histogram
	batchSeconds prometheus.Histogram
	batchFailed  prometheus.Counter
	settled      *prometheus.CounterVec
	leasesLost   prometheus.Counter
	settleTime   prometheus.Histogram
	actions      *prometheus.CounterVec
	planned      prometheus.Counter
	work         *prometheus.CounterVec
	queueAge     *prometheus.GaugeVec
	outages      *prometheus.GaugeVec
	apiRefused   *prometheus.CounterVec
	evaluations  *prometheus.CounterVec
	reasons      labelLimit
	targets      labelLimit
	outbound     outboundMetrics
}

// labelLimit bounds the number of values of a label that users can choose: label returns
// the first 50 values unchanged, and "other" for all further values. Safe for concurrent
// use.
type labelLimit struct {
	mu   sync.Mutex
	seen map[string]bool
}

func (l *labelLimit) label(value string) string {
	const maxValues = 50
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.seen[value] {
		if len(l.seen) == maxValues {
			return other
		}
		if l.seen == nil {
			l.seen = map[string]bool{}
		}
		l.seen[value] = true
	}
	return value
}

const other = "other"

// NewMetrics returns the metrics. outcomes are all outcomes of requests to the ingest URL.
// Their counters start at zero. Other outcomes are not counted.
func NewMetrics(outcomes []string) *Metrics {
	m := &Metrics{
		registry:     prometheus.NewRegistry(),
		answered:     map[string]prometheus.Counter{},
		requests:     counters("ingest_requests_total", "Requests to the ingest URL, by outcome.", "outcome"),
		unverified:   counters("ingest_unverified_total", "Requests to the ingest URL that failed verification, by reason.", "reason"),
		batchEvents:  histogram("accept_batch_events", "Accepted events in one commit.", prometheus.ExponentialBuckets(1, 2, 10)),
		batchSeconds: histogram("accept_commit_seconds", "Time of one commit of accepted events.", prometheus.ExponentialBuckets(0.0005, 2, 14)),
		batchFailed:  counter("accept_failed_total", "Commits of accepted events that failed."),
		settled:      counters("events_settled_total", "Processed events, by their status afterwards.", "status"),
		leasesLost:   counter("events_lease_lost_total", "Events whose lease ran out before they were settled."),
		settleTime:   histogram("events_settle_seconds", "Time to match and settle one batch of events.", prometheus.ExponentialBuckets(0.0005, 2, 14)),
		actions:      counters("actions_total", "Completed actions, by target type and status.", "target_type", "status"),
		planned:      counter("events_planned_before_commit_total", "Events that were stored together with their effects."),
		work:         counters("executions_total", "Executions by the act of a worker: claimed, completed, failed (and retried), dead (failed finally) or suspended.", "act"),
		evaluations:  counters("evaluations_total", "Evaluations of tenants' expressions that exceeded a limit, by place and outcome: slow, too_much (stopped at the limit of one event), waited or refused (both: the tenant had used up its share of CPU time).", "place", "outcome"),
		apiRefused:   counters("api_refused_total", "API requests that were refused before they were processed, by reason: the key, or a limit of the tenant or of the instance.", "reason"),
		outages: prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: "eventhook", Name: "subscription_outages",
			Help: "Subscriptions whose receiver fails and is probed (failing), and running recoveries (recovering)."}, []string{"state"}),
		queueAge: prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: "eventhook", Name: "queue_age_seconds",
			Help: "Age of the oldest due row of a queue in seconds; 0 if no row is due."}, []string{"queue"}),
		outbound: newOutboundMetrics(),
	}
	m.registry.MustRegister(m.outbound.all()...)
	m.registry.MustRegister(m.requests, m.unverified, m.batchEvents, m.batchSeconds, m.batchFailed, m.settled, m.leasesLost,
		m.settleTime, m.actions, m.planned, m.work, m.queueAge, m.outages, m.apiRefused, m.evaluations,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	for _, o := range outcomes {
		m.answered[o] = m.requests.WithLabelValues(o)
	}
	return m
}

func counter(name, help string) prometheus.Counter {
	return prometheus.NewCounter(prometheus.CounterOpts{Namespace: "eventhook", Name: name, Help: help})
}

func counters(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "eventhook", Name: name, Help: help}, labels)
}

func histogram(name, help string, buckets []float64) prometheus.Histogram {
	return prometheus.NewHistogram(prometheus.HistogramOpts{Namespace: "eventhook", Name: name, Help: help, Buckets: buckets})
}

// Handler serves the metrics in Prometheus' text format.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
}

// WatchWaiting registers a gauge of the accepted events that wait for their commit. waiting
// is called at each scrape. WatchWaiting must be called at most once.
func (m *Metrics) WatchWaiting(waiting func() int) {
	m.watch("accept_waiting_events", "Accepted events that wait for their commit or are being committed.", waiting)
}

// WatchIngestMemory registers a gauge of the bytes that requests to the ingest URL use. held
// is called at each scrape. WatchIngestMemory must be called at most once.
func (m *Metrics) WatchIngestMemory(held func() int) {
	m.watch("ingest_held_bytes", "Memory that requests to the ingest URL use: bodies, their copies and decoded forms.", held)
}

// WatchUnreadable registers a counter of stored secrets that could not be decrypted. It
// must be called at most once.
func (m *Metrics) WatchUnreadable(total func() int64) {
	m.registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Namespace: "eventhook", Name: "sealed_values_unreadable_total",
		Help: "Stored secrets that could not be decrypted: their key is not configured, or they were sealed for another row or column."},
		func() float64 { return float64(total()) }))
}

func (m *Metrics) watch(name, help string, read func() int) {
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Namespace: "eventhook", Name: name, Help: help},
		func() float64 { return float64(read()) }))
}

// Evaluated counts an evaluation of a tenant's expressions that exceeded a limit.
func (m *Metrics) Evaluated(place cpushare.Place, outcome cpushare.Outcome) {
	m.evaluations.WithLabelValues(string(place), string(outcome)).Inc()
}

// Answered counts a request to the ingest URL.
func (m *Metrics) Answered(outcome, reason string) {
	if c, ok := m.answered[outcome]; ok {
		c.Inc()
	}
	if reason != "" {
		m.unverified.WithLabelValues(m.reasons.label(reason)).Inc()
	}
}

// Committed counts a commit of accepted events.
func (m *Metrics) Committed(events int, took time.Duration, err error) {
	m.batchEvents.Observe(float64(events))
	m.batchSeconds.Observe(took.Seconds())
	if err != nil {
		m.batchFailed.Inc()
	}
}

// Settled counts a batch of events that the processor settled, and their actions. Events
// that are still processing and actions of http targets are counted when their deliveries
// are settled.
func (m *Metrics) Settled(batch []*effects.Settlement, lost int, took time.Duration) {
	m.settleTime.Observe(took.Seconds())
	m.leasesLost.Add(float64(lost))
	m.countSettled(batch)
}

// Planned counts events that were stored together with their effects.
func (m *Metrics) Planned(batch []*effects.Settlement) {
	m.planned.Add(float64(len(batch)))
	m.countSettled(batch)
}

func (m *Metrics) countSettled(batch []*effects.Settlement) {
	states := map[eventhook.EventStatus]int{}
	type action struct {
		target string
		status eventhook.ActionStatus
	}
	actions := map[action]int{}
	for _, s := range batch {
		if s.Status != eventhook.EventProcessing {
			states[s.Status]++
		}
		for i := range s.Actions {
			if a := &s.Actions[i]; a.Status != eventhook.ActionPending {
				actions[action{m.targets.label(a.TargetType), a.Status}]++
			}
		}
	}
	for status, n := range states {
		m.settled.WithLabelValues(string(status)).Add(float64(n))
	}
	for a, n := range actions {
		m.actions.WithLabelValues(a.target, string(a.status)).Add(float64(n))
	}
}

// Worked counts executions by the act of a worker: claimed, completed, failed,
// dead, suspended.
func (m *Metrics) Worked(act string, executions int) {
	m.work.WithLabelValues(act).Add(float64(executions))
}

// APIRefused counts an API request that was refused before it was processed.
func (m *Metrics) APIRefused(reason string) { m.apiRefused.WithLabelValues(reason).Inc() }

// QueueAges returns the age of the oldest due row of each queue, 0 if no row is due.
type QueueAges interface {
	EventQueueAge(ctx context.Context) (time.Duration, error)
	ExecutionQueueAge(ctx context.Context) (time.Duration, error)
	DeliveryQueueAge(ctx context.Context) (time.Duration, error)
	// OutageCounts counts the subscriptions that are probed, and the running recoveries.
	OutageCounts(ctx context.Context) (failing, recovering int, err error)
}

// WatchQueues updates the ages of the queues every interval until ctx ends. It always
// returns nil.
func (m *Metrics) WatchQueues(ctx context.Context, ages QueueAges, interval time.Duration, log *slog.Logger) error {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		m.readQueues(ctx, ages, log)
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

func (m *Metrics) readQueues(ctx context.Context, ages QueueAges, log *slog.Logger) {
	for queue, read := range map[string]func(context.Context) (time.Duration, error){
		"events": ages.EventQueueAge, "executions": ages.ExecutionQueueAge, "deliveries": ages.DeliveryQueueAge,
	} {
		age, err := read(ctx)
		if err != nil {
			if ctx.Err() == nil {
				log.Debug("cannot read a queue's age", "queue", queue, "error", err)
			}
			continue
		}
		m.queueAge.WithLabelValues(queue).Set(age.Seconds())
	}
	failing, recovering, err := ages.OutageCounts(ctx)
	if err != nil {
		if ctx.Err() == nil {
			log.Debug("cannot count outages", "error", err)
		}
		return
	}
	m.outages.WithLabelValues("failing").Set(float64(failing))
	m.outages.WithLabelValues("recovering").Set(float64(recovering))
}
