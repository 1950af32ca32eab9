package telemetry

import (
	"cmp"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/outbound"
)

// outboundMetrics count published events, deliveries to subscribers and targets of routes, and the
// states of subscriptions.
type outboundMetrics struct {
	published      prometheus.Counter
	publishSeconds prometheus.Histogram
	publishFailed  prometheus.Counter
	misfits        *counters

	delay          prometheus.Histogram
	attempts       *children[prometheus.Observer]
	deliveries     *counters
	received       prometheus.Histogram
	settleSeconds  prometheus.Histogram
	deliveriesLost prometheus.Counter
	released       prometheus.Counter
	waiting        *reading
	sending        *reading
	unsettled      *reading

	breakers  *reading
	tracked   *reading
	disabled  *counters
	outages   *prometheus.GaugeVec
	recovered prometheus.Counter
	probes    *counters
	replaying prometheus.Gauge
	replays   *counters
}

func newOutboundMetrics(r *registry) (m outboundMetrics) {
	m.declarePublishing(r)
	m.declareDeliveries(r)
	m.declareSubscriptions(r)
	return m
}

// deliveryStatuses are the statuses of a delivery after an attempt.
var deliveryStatuses = []string{"success", "failed", "dead"}

func (m *outboundMetrics) declarePublishing(r *registry) {
	r.section("Publishing events")
	m.published = r.counter(Family{Name: "published_events_total", Help: "Events that tenants published through the API.",
		Look: "subscribers miss events: were they published?"})
	m.publishSeconds = r.histogram(Family{Name: "publish_commit_seconds", Help: "Time of one commit of published events.",
		Look: "callers of the API wait for their answers."}, commitBuckets)
	m.publishFailed = r.counter(Family{Name: "publish_failed_total", Help: "Commits of published events that failed.",
		Look: "callers of the API get 500."})
	m.misfits = r.counters(Family{Name: "published_misfits_total", Help: "Published events that do not match their tenant's catalogue, by kind; they are delivered nevertheless.",
		Look: "a subscriber reports events of an unexpected form.", Labels: []Label{{Name: "kind", Values: []string{"unknown", "misshapen", "unchecked"}}}})
}

func (m *outboundMetrics) declareDeliveries(r *registry) {
	r.section("Sending deliveries")
	m.delay = r.latency(Family{Name: "delivery_delay_seconds",
		Help: "Time from the moment at which a delivery attempt was due to its start: the gateway's own share of the latency. Backoffs, circuit breakers, rate limits and the order of a subscription are not included.",
		Look: "deliveries are late. If this metric is low, the receivers are slow."})
	m.attempts = r.histograms(Family{Name: "delivery_attempt_seconds", Help: "Duration of one delivery attempt, by outcome: success or the class of the failure.",
		Look:   "deliveries fail: `dns`, `connect` and `tls` for all receivers mean a fault of the gateway's network. `refused` and `auth`: a broker or Temporal does not take the message or the credentials.",
		Labels: []Label{{Name: "outcome", Values: []string{"success", "dns", "connect", "tls", "timeout", "http_4xx", "http_5xx", "http", "blocked", "closed", "refused", "auth", "transform"}}}},
		prometheus.ExponentialBuckets(0.001, 2, 17))
	m.deliveries = r.counters(Family{Name: "deliveries_settled_total", Help: "Settled attempts at deliveries, by the status of the delivery afterwards: success, failed (a retry is scheduled) or dead.",
		Look: "subscribers miss events.", Labels: []Label{{Name: "status", Values: deliveryStatuses}}})
	m.received = r.latency(Family{Name: "received_to_delivered_seconds", Help: "Time from the receipt of an event to the 2xx answer of a receiver, with all retries and outages. Deliveries of replays and recoveries are not counted.",
		Look: "subscribers report late events. It includes slow and failing receivers."})
	m.settleSeconds = r.histogram(Family{Name: "deliveries_settle_seconds", Help: "Time to write one batch of delivery outcomes.",
		Look: "`deliveries_unsettled` grows."}, commitBuckets)
	m.deliveriesLost = r.counter(Family{Name: "deliveries_lease_lost_total", Help: "Deliveries whose lease ran out before their outcome was written; they are sent again.",
		Look: "receivers report that they get deliveries twice."})
	m.released = r.counter(Family{Name: "deliveries_recovered_total", Help: "Deliveries that succeeded after a recovery or a replay had released them.",
		Look: "a receiver is back after an outage."})
	m.waiting = r.gaugeReading(Family{Name: "deliveries_waiting", Help: "Leased deliveries in memory that wait to be sent.", Look: "`delivery_delay_seconds` rises."})
	m.sending = r.gaugeReading(Family{Name: "deliveries_sending", Help: "Deliveries that are being sent.",
		Look: "`delivery_delay_seconds` rises: the bound is `outbound.dispatch.sends_at_once`."})
	m.unsettled = r.gaugeReading(Family{Name: "deliveries_unsettled", Help: "Sent deliveries whose outcomes are not written yet.",
		Look: "`delivery_delay_seconds` rises. At the bound, `outbound.dispatch.unsettled_deliveries`, nothing more is sent."})
}

func (m *outboundMetrics) declareSubscriptions(r *registry) {
	r.section("Subscriptions, outages and replays")
	m.breakers = r.gaugeReading(Family{Name: "breakers_open", Help: "Subscriptions and targets of routes whose circuit breaker is open in this instance: they get probes only.",
		Look: "`parked{reason=\"breaker\"}` grows: receivers are down."})
	m.tracked = r.gaugeReading(Family{Name: "breakers", Help: "Subscriptions and targets of routes that this instance has sent to in the last 10 minutes: each has a circuit breaker, open or closed.",
		Look: "`breakers_open` rises: the share of receivers that fail."})
	m.disabled = r.counters(Family{Name: "subscriptions_disabled_total", Help: "Subscriptions that were disabled, by the reason: failures (too many dead deliveries), gone (the receiver answered 410), person or tenant_closed.",
		Look: "a subscriber gets nothing any more.", Labels: []Label{{Name: "reason", Values: []string{"failures", "gone", "person", "tenant_closed"}}}})
	m.outages = r.gauges(Family{Name: "subscription_outages", Shared: true, Help: "Subscriptions whose receiver fails and is probed (failing), and running recoveries (recovering).",
		Look: "many receivers fail at once: the cause may be the gateway's network.", Labels: []Label{{Name: "state", Values: []string{"failing", "recovering"}}}})
	m.recovered = r.counter(Family{Name: "outages_recovered_total", Help: "Outages of subscriptions that ended with a success, and whose missed deliveries are recovered.", Look: "a receiver is back."})
	m.probes = r.counters(Family{Name: "probes_total", Help: "Probes of subscriptions during an outage, by result: success, failed, rejected (only answers of 400 or 422), gone (410), empty (no delivery was missed) or busy (no time for the transform).",
		Look: "an outage does not end.", Labels: []Label{{Name: "result", Values: []string{"success", "failed", "rejected", "gone", "empty", "busy"}}}})
	m.replaying = r.gauge(Family{Name: "replays_running", Shared: true, Help: "Replays that are running. Recoveries are replays, too.", Look: "a replay seems to do nothing."})
	m.replays = r.counters(Family{Name: "replays_ended_total", Help: "Replays that this instance completed, or that were cancelled through it.",
		Look: "a replay seems to do nothing.", Labels: []Label{{Name: "status", Values: []string{"completed", "cancelled"}}}})
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
func (m *Metrics) Mismatch(kind string) { m.outbound.misfits.of(kind).Inc() }

// Started observes for how long a delivery waited for the gateway before its attempt.
func (m *Metrics) Started(d *eventhook.Delivery, delay time.Duration) {
	m.observe(m.outbound.delay, delay, d.Event)
}

// Attempted counts a delivery attempt. An attempt without a class has succeeded.
func (m *Metrics) Attempted(class eventhook.ErrorClass, took time.Duration) {
	outcome := string(class)
	if outcome == "" {
		outcome = string(eventhook.DeliverySuccess)
	}
	m.outbound.attempts.of(outcome).Observe(took.Seconds())
}

// SettledDeliveries counts a batch of settled deliveries, and the events and actions of
// routes that the batch completed.
func (m *Metrics) SettledDeliveries(batch []*outbound.DeliverySettlement, lost int, took time.Duration) {
	m.outbound.settleSeconds.Observe(took.Seconds())
	m.outbound.deliveriesLost.Add(float64(lost))
	addTenants(m.tenants, batch, func(s *outbound.DeliverySettlement) tenantCount { return tenantCount{s.Delivery.TenantID, s.Status} })
	states := map[eventhook.DeliveryStatus]int{}
	for _, s := range batch {
		if states[s.Status]++; s.Delivery.IsReleased && s.Status == eventhook.DeliverySuccess {
			m.outbound.released.Inc()
		}
		if isMeasured(s) {
			m.observe(m.outbound.received, s.Attempt.StartedAt.Add(s.Attempt.Duration).Sub(s.Delivery.EventID.Time()), s.Delivery.Event)
		}
		if s.EventStatus != "" {
			m.events.settled.of(string(s.EventStatus)).Inc()
		}
		if s.EventStatus == eventhook.EventDead {
			m.events.deadLetters.of(deadEvent).Inc()
		}
		if status, ended := actionStatus(s); ended {
			m.events.actions.WithLabelValues(m.targetLabel(s), string(status)).Inc()
		}
	}
	m.events.deadLetters.of(deadDelivery).Add(float64(states[eventhook.DeliveryDead]))
	for status, n := range states {
		m.outbound.deliveries.of(string(status)).Add(float64(n))
	}
}

// isMeasured reports whether a settlement counts for the time from receipt to delivery.
func isMeasured(s *outbound.DeliverySettlement) bool {
	return s.Status == eventhook.DeliverySuccess && s.Attempt != nil && !s.Delivery.IsReleased && !s.IsUncounted
}

// Probed counts a probe.
func (m *Metrics) Probed(result outbound.ProbeResult) { m.outbound.probes.of(string(result)).Inc() }

// DeliveriesExpired counts deliveries that became dead because they were too old.
func (m *Metrics) DeliveriesExpired(n int) { m.events.deadLetters.of(deadDelivery).Add(float64(n)) }

// SubscriptionsDisabled counts subscriptions that were disabled.
func (m *Metrics) SubscriptionsDisabled(by eventhook.DisabledBy, n int) {
	reason := map[eventhook.DisabledBy]string{eventhook.DisabledByUser: "person", eventhook.DisabledByTenant: "tenant_closed"}[by]
	if reason == "" {
		reason = string(by)
	}
	m.outbound.disabled.of(reason).Add(float64(n))
}

// OutagesRecovered counts outages that ended with a success.
func (m *Metrics) OutagesRecovered(n int) { m.outbound.recovered.Add(float64(n)) }

// ReplayEnded counts a replay that was completed or cancelled.
func (m *Metrics) ReplayEnded(status eventhook.ReplayStatus) {
	m.outbound.replays.of(string(status)).Inc()
}

// targetLabel returns the label of a settlement's target. The type of a target that was deleted is not
// known.
func (m *Metrics) targetLabel(s *outbound.DeliverySettlement) string {
	return m.events.targets.label(cmp.Or(s.TargetType, other))
}

// actionStatus returns the status of the action that a settlement completes. ended is false
// if it completes no action.
func actionStatus(s *outbound.DeliverySettlement) (status eventhook.ActionStatus, ended bool) {
	switch {
	case !s.Delivery.IsOfRoute() || s.Status == eventhook.DeliveryFailed:
		return "", false
	case s.Status != eventhook.DeliverySuccess:
		return eventhook.ActionFailed, true
	case s.Attempt != nil && s.Attempt.StatusCode == eventhook.StatusExisted && s.TargetType != eventhook.TargetHTTP:
		return eventhook.ActionSkipped, true
	}
	return eventhook.ActionSuccess, true
}

// DispatcherLoad has the numbers of deliveries in a dispatcher's memory: waiting, being
// sent, and sent but not settled. Open is the number of open circuit breakers among all Breakers.
type DispatcherLoad struct{ Waiting, Sending, Unsettled, Open, Breakers int }

// WatchDispatch sets the function that returns a dispatcher's load. Each scrape calls it.
func (m *Metrics) WatchDispatch(now func() DispatcherLoad) {
	m.outbound.waiting.fromInt(func() int { return now().Waiting })
	m.outbound.sending.fromInt(func() int { return now().Sending })
	m.outbound.unsettled.fromInt(func() int { return now().Unsettled })
	m.outbound.breakers.fromInt(func() int { return now().Open })
	m.outbound.tracked.fromInt(func() int { return now().Breakers })
}
