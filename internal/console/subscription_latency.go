package console

import (
	"time"

	"github.com/eventhook/eventhook/client"
	"github.com/eventhook/eventhook/internal/web"
)

// Latency is a chart of the time from the event to its delivery, for the deliveries of the health strip
// that succeeded. Retries make some a thousand times longer than others.
func (p subscriptionPage) Latency() web.Chart {
	var times []time.Time
	var values []float64
	for _, d := range p.Cells {
		if d.Status == client.DeliveryStatusSuccess && d.CompletedAt != nil {
			times = append(times, d.CreatedAt)
			values = append(values, float64(d.CompletedAt.Sub(d.CreatedAt))/float64(time.Millisecond))
		}
	}
	return web.Chart{Title: "Latency of the last deliveries", Format: web.Milliseconds, IsLog: true, Times: times,
		Series: []web.Series{{Name: "to delivery", Class: "accent", Values: values}}}
}

// HasLatency reports whether there are enough deliveries for a line.
func (p subscriptionPage) HasLatency() bool { return len(p.Latency().Times) > 1 }

// P50 is the median latency of the last 24 hours; nil if it is unknown.
func (p subscriptionPage) P50() *float64 {
	if p.Recent == nil {
		return nil
	}
	return p.Recent.LatencyP50Ms
}

// P99 is like P50 for the 99th percentile.
func (p subscriptionPage) P99() *float64 {
	if p.Recent == nil {
		return nil
	}
	return p.Recent.LatencyP99Ms
}
