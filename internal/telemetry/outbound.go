package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/outbound"
)

// outboundMetrics count published events, and deliveries to subscribers and http targets.
type outboundMetrics struct {
	published      prometheus.Counter
	publishSeconds prometheus.Histogram
	publishFailed  prometheus.Counter
	misfits        *prometheus.CounterVec
	attempts       *prometheus.HistogramVec
	deliveries     *prometheus.CounterVec
	deliveriesLost prometheus.Counter
	settleSeconds  prometheus.Histogram
	probes         *prometheus.CounterVec
	released       prometheus.Counter
}

func newOutboundMetrics() outboundMetrics {
	return outboundMetrics{
		published:      counter("published_events_total", "Events that tenants published through the API."),
		publishSeconds: histogram("publish_commit_seconds", "Time of one commit of published events.", prometheus.ExponentialBuckets(0.0005, 2, 14)),
		publishFailed:  counter("publish_failed_total", "Commits of published events that failed."),
		misfits:        counters("published_misfits_total", "Published events that do not match their tenant's catalogue, by kind; they are delivered nevertheless.", "kind"),
		attempts: prometheus.NewHistogramVec(prometheus.HistogramOpts{Namespace: "eventhook", Name: "delivery_attempt_seconds",
			Help: "Duration of one delivery attempt, by outcome: success or the class of the failure.", Buckets: prometheus.ExponentialBuckets(0.001, 2, 17)}, []string{"outcome"}),
		deliveries:     counters("deliveries_settled_total", "Settled deliveries, by their status afterwards.", "status"),
		deliveriesLost: counter("deliveries_lease_lost_total", "Deliveries whose lease ran out before their outcome was written; they are sent again."),
		settleSeconds:  histogram("deliveries_settle_seconds", "Time to write one batch of delivery outcomes.", prometheus.ExponentialBuckets(0.0005, 2, 14)),
		probes:         counters("probes_total", "Probes of subscriptions during an outage, by result: success, failed, rejected, gone, empty or busy.", "result"),
		released:       counter("deliveries_recovered_total", "Deliveries that succeeded after a recovery or a replay had released them."),
	}
}

func (o outboundMetrics) all() []prometheus.Collector {
	return []prometheus.Collector{o.published, o.publishSeconds, o.publishFailed, o.misfits, o.attempts, o.deliveries,
		o.deliveriesLost, o.settleSeconds, o.probes, o.released}
}

// Published counts a commit of published events.
func (m *Metrics) Published(events, _ int, took time.Duration, err error) {
	m.outbound.publishSeconds.Observe(took.Seconds())
	if err != nil {
		m.outbound.publishFailed.Inc()
		return
	}
	m.outbound.published.Add(float64(events))
}

// Mismatch counts a published event that does not match its catalogue entry.
func (m *Metrics) Mismatch(kind string) { m.outbound.misfits.WithLabelValues(kind).Inc() }

// Attempted counts a delivery attempt. An attempt without a class has succeeded.
func (m *Metrics) Attempted(class eventhook.ErrorClass, took time.Duration) {
	outcome := string(class)
	if outcome == "" {
		outcome = string(eventhook.DeliverySuccess)
	}
	m.outbound.attempts.WithLabelValues(outcome).Observe(took.Seconds())
}

// SettledDeliveries counts a batch of settled deliveries, and the events and actions of
// routes that the batch completed.
func (m *Metrics) SettledDeliveries(batch []*outbound.DeliverySettlement, lost int, took time.Duration) {
	m.outbound.settleSeconds.Observe(took.Seconds())
	m.outbound.deliveriesLost.Add(float64(lost))
	states := map[eventhook.DeliveryStatus]int{}
	for _, s := range batch {
		if states[s.Status]++; s.Delivery.IsReleased && s.Status == eventhook.DeliverySuccess {
			m.outbound.released.Inc()
		}
		if s.EventStatus != "" {
			m.settled.WithLabelValues(string(s.EventStatus)).Inc()
		}
		if status, ended := actionStatus(s); ended {
			m.actions.WithLabelValues(m.targets.label(httpTarget), string(status)).Inc()
		}
	}
	for status, n := range states {
		m.outbound.deliveries.WithLabelValues(string(status)).Add(float64(n))
	}
}

// Probed counts a probe.
func (m *Metrics) Probed(result outbound.ProbeResult) {
	m.outbound.probes.WithLabelValues(string(result)).Inc()
}

// httpTarget is the type of the targets whose actions are deliveries.
const httpTarget = "http"

// actionStatus returns the status of the action that a settlement completes. ended is false
// if it completes no action.
func actionStatus(s *outbound.DeliverySettlement) (status eventhook.ActionStatus, ended bool) {
	switch {
	case !s.Delivery.IsOfRoute() || s.Status == eventhook.DeliveryFailed:
		return "", false
	case s.Status == eventhook.DeliverySuccess:
		return eventhook.ActionSuccess, true
	}
	return eventhook.ActionFailed, true
}

// DispatcherLoad has the numbers of deliveries in a dispatcher's memory: waiting, being
// sent, and sent but not settled. Open is the number of open circuit breakers.
type DispatcherLoad struct{ Waiting, Sending, Unsettled, Open int }

// WatchDispatch registers gauges of a dispatcher's load. now is called at each scrape.
// WatchDispatch must be called at most once.
func (m *Metrics) WatchDispatch(now func() DispatcherLoad) {
	m.watch("deliveries_waiting", "Leased deliveries in memory that wait to be sent.", func() int { return now().Waiting })
	m.watch("deliveries_sending", "Deliveries that are being sent.", func() int { return now().Sending })
	m.watch("deliveries_unsettled", "Sent deliveries whose outcomes are not written yet.", func() int { return now().Unsettled })
	m.watch("deliveries_open_subscriptions", "Subscriptions and http targets whose circuit breaker is open: they get probes only.", func() int { return now().Open })
}
