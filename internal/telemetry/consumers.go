package telemetry

import "github.com/eventhook/eventhook"

// consumerStatuses are the states of consumers that an instance has.
var consumerStatuses = []string{string(eventhook.ConsumerRunning), string(eventhook.ConsumerWaiting), string(eventhook.ConsumerFailed)}

// newConsumerMetrics describes the sources that an instance consumes.
func newConsumerMetrics(r *registry) map[string]*reading {
	r.section("Sources that consume messages")
	return r.readings(Gauge, Family{Name: "consumers", Help: "Sources whose messages this instance consumes, by the state of their consumers, read every two seconds.",
		Look:   "`failed` is not 0: a broker cannot be used, and the source has the reason. `waiting` stays: limits, a quota or the database allow no message.",
		Labels: []Label{{Name: "status", Values: consumerStatuses}}})
}

// WatchConsumers sets the function that counts the consumers of this instance by their status. Each scrape calls it.
func (m *Metrics) WatchConsumers(count func() map[eventhook.ConsumerStatus]int) {
	for _, status := range consumerStatuses {
		m.consumers[status].fromInt(func() int { return count()[eventhook.ConsumerStatus(status)] })
	}
}
