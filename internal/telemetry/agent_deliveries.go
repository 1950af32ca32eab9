package telemetry

import "github.com/prometheus/client_golang/prometheus"

// agentDeliveryMetrics count the deliveries that agents send.
type agentDeliveryMetrics struct {
	claimed    prometheus.Counter
	takenOver  prometheus.Counter
	results    *counters
	waiting    *reading
	registered *prometheus.GaugeVec
}

func newAgentDeliveryMetrics(r *registry) (m agentDeliveryMetrics) {
	r.section("Deliveries by agents")
	m.claimed = r.counter(Family{Name: "agent_deliveries_claimed_total", Help: "Deliveries that agents claimed on this instance.",
		Look: "a receiver behind a firewall gets nothing: do its agents claim?"})
	m.takenOver = r.counter(Family{Name: "agent_leases_expired_total", Help: "Claimed deliveries that another agent had claimed before and not reported in time.",
		Look: "receivers behind a firewall get deliveries late or twice: agents end, or their leases are too short."})
	m.results = r.counters(Family{Name: "agent_results_total", Help: "Results that agents reported, by outcome: stored, or lost (another agent had taken the delivery over).",
		Look: "`agent_leases_expired_total` grows.", Labels: []Label{{Name: "outcome", Values: []string{"stored", "lost"}}}})
	m.waiting = r.gaugeReading(Family{Name: "agent_claims_waiting", Help: "Sets of labels for which claims of agents wait on this instance.",
		Look: "a receiver behind a firewall gets nothing: does an agent wait?"})
	m.registered = r.gauges(Family{Name: "agents", Shared: true, Help: "Agents of all tenants, by status: online, or offline (no claim for 90 seconds).",
		Look:   "`parked{reason=\"agent\"}` grows: agents have ended or do not reach the gateway.",
		Labels: []Label{{Name: "status", Values: []string{"online", "offline"}}}})
	return m
}

// AgentsClaimed counts a claim of an agent.
func (m *Metrics) AgentsClaimed(deliveries, takenOver int) {
	m.agents.claimed.Add(float64(deliveries))
	m.agents.takenOver.Add(float64(takenOver))
}

// AgentsReported counts results of agents.
func (m *Metrics) AgentsReported(stored, lost int) {
	m.agents.results.of("stored").Add(float64(stored))
	m.agents.results.of("lost").Add(float64(lost))
}

// WatchAgentClaims sets the function that counts the sets of labels for which claims wait. Each
// scrape calls it.
func (m *Metrics) WatchAgentClaims(waiting func() int) { m.agents.waiting.fromInt(waiting) }
