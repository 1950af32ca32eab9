package telemetry

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/eventhook/eventhook"
)

// queueMetrics show the work in the database, of all instances.
type queueMetrics struct {
	age, depth, parked *prometheus.GaugeVec
}

// The queues.
const (
	eventQueue     = "events"
	executionQueue = "executions"
	deliveryQueue  = "deliveries"
)

func newQueueMetrics(r *registry) queueMetrics {
	r.section("Queues")
	var reasons []string
	for _, r := range deliveryParkReasons {
		reasons = append(reasons, string(r))
	}
	queue := []Label{{Name: "queue", Values: []string{eventQueue, executionQueue, deliveryQueue}}}
	return queueMetrics{
		age: r.gauges(Family{Name: "queue_age_seconds", Help: "Age of the oldest work in a queue that should be done now, in seconds; 0 if there is none. Work that waits for a circuit breaker, a person or an agent is not included; see eventhook_parked. Read every 5 seconds, and less often, down to once a minute, when the queue is long.",
			Look:   "webhooks or deliveries are late. Executions wait for workers of tenants: their age is no fault of the gateway.",
			Shared: true, Labels: queue}),
		depth: r.gauges(Family{Name: "queue_depth", Help: "Work in a queue that should be done now, counted up to 100 000. Work that waits for a circuit breaker, a person or an agent is not included; see eventhook_parked. Read as often as the age.",
			Look:   "the age of a queue grows.",
			Shared: true, Labels: queue}),
		parked: r.gauges(Family{Name: "parked", Help: "Work that waits for something outside the gateway, by reason: breaker (the receiver fails), paused (a person paused the subscription or disabled the route), held (the subscription is disabled), limit (the receiver is slower than its events arrive: its slots, rate limit or recovery are used up), agent (an agent of the tenant sends it) or suspended (the workflow awaits a promise). Counted up to 100 000.",
			Look:   "a tenant misses deliveries. The gateway continues by itself when the receiver answers or a person acts.",
			Shared: true, Labels: []Label{{Name: "queue", Values: []string{executionQueue, deliveryQueue}}, {Name: "reason", Values: reasons}},
			Series: append(seriesOf(deliveryQueue, reasons), []string{executionQueue, string(eventhook.ParkedSuspended)})}),
	}
}

// deliveryParkReasons lists the reasons for which deliveries are parked.
var deliveryParkReasons = []eventhook.ParkReason{eventhook.ParkedBreaker, eventhook.ParkedLimit, eventhook.ParkedPaused, eventhook.ParkedHeld, eventhook.ParkedAgent}

// seriesOf returns the label values of the series of a queue.
func seriesOf(queue string, values []string) (all [][]string) {
	for _, v := range values {
		all = append(all, []string{queue, v})
	}
	return all
}

// Queues reads the queues of the database. Work counts up to eventhook.MaxQueueDepth.
type Queues interface {
	EventQueue(ctx context.Context) (eventhook.QueueState, error)
	ExecutionQueue(ctx context.Context) (eventhook.QueueState, error)
	// DeliveryQueue counts deliveries to blocked destinations as parked.
	DeliveryQueue(ctx context.Context, blocked eventhook.BlockedDestinations) (eventhook.QueueState, error)
	SubscriptionCounts(ctx context.Context) (eventhook.SubscriptionCounts, error)
	AgentCounts(ctx context.Context) (eventhook.AgentCounts, error)
}

// WatchQueues reads the queues every interval until ctx ends, and a long queue more seldom; see
// pause. blocked returns the destinations to which this instance cannot send more. A queue that
// cannot be read keeps its former values. WatchQueues always returns nil.
func (m *Metrics) WatchQueues(ctx context.Context, queues Queues, blocked func() eventhook.BlockedDestinations, w Watch) error {
	due := map[string]time.Time{} // when a queue is read again
	return w.run(ctx, func() {
		for queue, read := range map[string]func(context.Context) (eventhook.QueueState, error){
			eventQueue: queues.EventQueue, executionQueue: queues.ExecutionQueue,
			deliveryQueue: func(ctx context.Context) (eventhook.QueueState, error) { return queues.DeliveryQueue(ctx, blocked()) },
		} {
			began := time.Now()
			if began.Before(due[queue]) {
				continue
			}
			if state, err := read(ctx); w.succeeded(ctx, "read the queue of "+queue, err) {
				m.setQueue(queue, state)
			}
			due[queue] = began.Add(pause(time.Since(began)))
		}
		if n, err := queues.SubscriptionCounts(ctx); w.succeeded(ctx, "count outages", err) {
			m.outbound.outages.WithLabelValues("failing").Set(float64(n.Failing))
			m.outbound.outages.WithLabelValues("recovering").Set(float64(n.Recovering))
			m.outbound.replaying.Set(float64(n.Recovering + n.Replaying))
		}
		if n, err := queues.AgentCounts(ctx); w.succeeded(ctx, "count agents", err) {
			m.agents.registered.WithLabelValues("online").Set(float64(n.Online))
			m.agents.registered.WithLabelValues("offline").Set(float64(n.Offline))
		}
	})
}

// pause returns how long a queue is not read after a reading that took some time. The database
// counts the rows of a queue one by one, so that each instance takes at most about a hundredth of
// the time of one connection, but reads each queue every minute.
func pause(took time.Duration) time.Duration {
	const share = 100
	return min(share*took, time.Minute)
}

func (m *Metrics) setQueue(queue string, state eventhook.QueueState) {
	m.queues.age.WithLabelValues(queue).Set(state.Age.Seconds())
	m.queues.depth.WithLabelValues(queue).Set(float64(state.Depth))
	switch queue {
	case deliveryQueue:
		for _, reason := range deliveryParkReasons {
			m.queues.parked.WithLabelValues(queue, string(reason)).Set(float64(state.Parked[reason]))
		}
	case executionQueue:
		m.queues.parked.WithLabelValues(queue, string(eventhook.ParkedSuspended)).Set(float64(state.Parked[eventhook.ParkedSuspended]))
	}
}
