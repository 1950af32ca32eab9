package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/cpushare"
	"github.com/eventhook/eventhook/internal/effects"
	"github.com/eventhook/eventhook/targets"
)

// eventMetrics count events, their actions and their executions.
type eventMetrics struct {
	settled     *counters
	received    prometheus.Histogram
	planned     prometheus.Counter
	stale       prometheus.Counter
	settleTime  prometheus.Histogram
	leasesLost  prometheus.Counter
	actions     *prometheus.CounterVec
	targets     *labelLimit
	work        *counters
	deadLetters *counters
	evaluations *prometheus.CounterVec
	apiRefused  *counters
}

// The kinds of dead letters.
const (
	deadEvent     = "event"
	deadDelivery  = "delivery"
	deadExecution = "execution"
)

func newEventMetrics(r *registry) eventMetrics {
	r.section("Processing events")
	m := eventMetrics{
		targets: &labelLimit{},
		settled: r.counters(Family{Name: "events_settled_total", Help: "Processed events, by their status afterwards. An event with status failed is tried again.",
			Look:   "`failed` or `dead` rises: routes fail. `unrouted` rises: no route matches.",
			Labels: []Label{{Name: "status", Values: []string{"delivered", "unrouted", "failed", "dead"}}}}),
		received: r.latency(Family{Name: "received_to_settled_seconds",
			Help: "Time from the receipt of a webhook to the commit of its first plan: its status is written and its effects are stored. For an event that is planned before its commit, this is that commit. Later retries of failed actions, attempts of deliveries and events that a person reprocesses are not included.",
			Look: "effects of webhooks are late. Deliveries, which a plan stores, have `delivery_delay_seconds`."}),
		planned: r.counter(Family{Name: "events_planned_before_commit_total", Help: "Events that were stored together with their effects.",
			Look: "events take longer: compare it with `events_settled_total`. All other events are planned after their commit."}),
		stale: r.counter(Family{Name: "events_stale_total", Help: "Events that were planned with a configuration that had changed before their commit, and are planned again.",
			Look: "it rises for minutes: some program changes the configuration of a tenant continuously."}),
		settleTime: r.histogram(Family{Name: "events_settle_seconds", Help: "Time to plan and settle one batch of events.",
			Look: "the queue of events grows."}, commitBuckets),
		leasesLost: r.counter(Family{Name: "events_lease_lost_total", Help: "Events whose lease ran out before they were settled.",
			Look: "it rises: instances are overloaded or stop for longer than `EVENTHOOK_LEASE_SECONDS`."}),
		actions: r.counterVec(Family{Name: "actions_total", Help: "Completed actions, by target type and status.",
			Look:   "routes fail: the target type says where.",
			Labels: []Label{{Name: "target_type", Values: targets.Types(), Open: "unknown types, at most 50, then `other`"}, {Name: "status", Values: []string{"success", "failed", "skipped"}}}}),
		work: r.counters(Family{Name: "executions_total",
			Help:   "Executions by the act of a worker: claimed, completed, failed (and retried), dead (failed finally), suspended, or started through the API.",
			Look:   "workers seem idle or failing.",
			Labels: []Label{{Name: "act", Values: []string{"claimed", "completed", "failed", "dead", "suspended", "started"}}}}),
		deadLetters: r.counters(Family{Name: "dead_letters_total", Help: "Events, deliveries and executions that became dead: the gateway does not try them again by itself. Work that ended because a tenant was closed or a destination was deleted does not count.",
			Look:   "it rises: list them with `eventhook event list --status dead`, `delivery list --status dead` or `execution list --status dead`.",
			Labels: []Label{{Name: "kind", Values: []string{deadEvent, deadDelivery, deadExecution}}}}),
		evaluations: r.counterVec(Family{Name: "evaluations_total",
			Help:   "Evaluations of tenants' expressions that exceeded a limit, by place and outcome: slow, too_much (stopped at the limit of one event), waited or refused (both: the tenant had used up its share of CPU time).",
			Look:   "a tenant's events are slow: its filters or transforms are expensive.",
			Labels: []Label{{Name: "place", Values: []string{"routes", "subscriptions", "schemas", "transforms", "tests"}}, {Name: "outcome", Values: []string{"slow", "too_much", "waited", "refused"}}}}),
	}
	r.section("API")
	m.apiRefused = r.counters(Family{Name: "api_refused_total", Help: "API requests that were refused before they were processed, by reason: the key, or a limit of the tenant or of the instance.",
		Look: "callers report 401, 403, 429 or 503.",
		Labels: []Label{{Name: "reason", Values: []string{"key_missing", "key_wrong", "too_many_wrong_keys", "not_permitted", "tenant_requests", "key_requests",
			"tenant_bytes", "key_bytes", "instance_bytes", "queue_full", "no_slot_in_time"}}}})
	return m
}

// Evaluated counts an evaluation of a tenant's expressions that exceeded a limit.
func (m *Metrics) Evaluated(place cpushare.Place, outcome cpushare.Outcome) {
	m.events.evaluations.WithLabelValues(string(place), string(outcome)).Inc()
}

// Settled counts a batch of events that the processor settled, and their actions. Events
// that are still processing and actions whose effects are deliveries are counted when their deliveries
// are settled.
func (m *Metrics) Settled(batch []*effects.Settlement, lost int, took time.Duration) {
	m.events.settleTime.Observe(took.Seconds())
	m.events.leasesLost.Add(float64(lost))
	m.countSettled(batch)
}

// Planned counts events that were stored together with their effects.
func (m *Metrics) Planned(batch []*effects.Settlement) {
	m.events.planned.Add(float64(len(batch)))
	m.countSettled(batch)
}

func (m *Metrics) countSettled(batch []*effects.Settlement) {
	states := map[eventhook.EventStatus]int{}
	type action struct {
		target string
		status eventhook.ActionStatus
	}
	actions, now := map[action]int{}, m.now()
	for _, s := range batch {
		if s.Status != eventhook.EventProcessing {
			states[s.Status]++
		}
		if s.Event.RetryCount == 0 && !s.Event.IsReprocessed {
			m.observe(m.events.received, now.Sub(s.Event.ID.Time()), s.Event)
		}
		for i := range s.Actions {
			if a := &s.Actions[i]; a.Status != eventhook.ActionPending {
				actions[action{m.events.targets.label(a.TargetType), a.Status}]++
			}
		}
	}
	m.events.deadLetters.of(deadEvent).Add(float64(states[eventhook.EventDead]))
	for status, n := range states {
		m.events.settled.of(string(status)).Add(float64(n))
	}
	for a, n := range actions {
		m.events.actions.WithLabelValues(a.target, string(a.status)).Add(float64(n))
	}
}

// Stale counts an event whose plan was not stored because the configuration had changed.
func (m *Metrics) Stale() { m.events.stale.Inc() }

// Worked counts executions by the act of a worker: claimed, completed, failed,
// dead, suspended, started.
func (m *Metrics) Worked(act string, executions int) {
	m.events.work.of(act).Add(float64(executions))
	if act == "dead" {
		m.events.deadLetters.of(deadExecution).Add(float64(executions))
	}
}

// ExecutionsLost counts executions that became dead because their last lease ran out.
func (m *Metrics) ExecutionsLost(n int) { m.events.deadLetters.of(deadExecution).Add(float64(n)) }

// APIRefused counts an API request that was refused before it was processed.
func (m *Metrics) APIRefused(reason string) { m.events.apiRefused.of(reason).Inc() }
