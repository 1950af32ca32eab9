package eventhook

import (
	"math/bits"
	"time"
)

// Traffic counts what happened within a span of time. Counts are those of the minute in which an
// instance noted them, up to a few seconds after they happened.
type Traffic struct {
	Received       int64 // stored events, including duplicates
	Refused        int64 // requests that a source refused because of the request itself
	Duplicates     int64 // of the received events
	Succeeded      int64 // events whose processing ended without a failure
	Failed         int64 // events that became dead
	Sent           int64 // deliveries that succeeded
	FailedAttempts int64
	Dead           int64 // deliveries that became dead
	Latency        LatencyCounts
}

// Add adds the counts of more to t.
func (t *Traffic) Add(more Traffic) {
	t.Received += more.Received
	t.Refused += more.Refused
	t.Duplicates += more.Duplicates
	t.Succeeded += more.Succeeded
	t.Failed += more.Failed
	t.Sent += more.Sent
	t.FailedAttempts += more.FailedAttempts
	t.Dead += more.Dead
	for i, n := range more.Latency {
		t.Latency[i] += n
	}
}

// TrafficOf says whose traffic is counted: that of a source or of a subscription, or, if both are
// zero, of a tenant.
type TrafficOf struct {
	TenantID       TenantID
	SourceID       SourceID
	SubscriptionID SubscriptionID
}

// TrafficCount is the traffic within one span.
type TrafficCount struct {
	TrafficOf
	Span TrafficSpan
	At   time.Time // start of the span, a multiple of Span
	Traffic
}

// TrafficSpan is the length of the span of a TrafficCount.
type TrafficSpan time.Duration

// The spans. Each event counts in one of each.
const (
	TrafficMinute  = TrafficSpan(time.Minute)
	TrafficMinutes = TrafficSpan(10 * time.Minute)
)

// TrafficRetention is how long counts are kept.
const TrafficRetention = 25 * time.Hour

// LatencyBuckets is the number of buckets of LatencyCounts: the last begins at about 4.6 hours.
const LatencyBuckets = 26

// LatencyCounts is a histogram of latencies. Bucket 0 has latencies below 1 ms; bucket i, those from
// 2^(i-1) ms until 2^i ms; the last bucket, all longer ones, too.
type LatencyCounts [LatencyBuckets]int64

// Observe counts a latency. A negative latency, from clocks that differ, counts as 0.
func (c *LatencyCounts) Observe(d time.Duration) {
	c[min(bits.Len64(uint64(max(0, d.Milliseconds()))), LatencyBuckets-1)]++
}

// Quantile estimates the latency below which a fraction q of the latencies lie; ok is false without
// any. The estimate assumes that the latencies of a bucket are spread evenly over it, so that it is
// at most twice and at least half the true value.
func (c LatencyCounts) Quantile(q float64) (d time.Duration, ok bool) {
	var total int64
	for _, n := range c {
		total += n
	}
	if total == 0 {
		return 0, false
	}
	rank, before := q*float64(total), 0.0
	for i, n := range c {
		if n > 0 && before+float64(n) >= rank {
			low := bucketStart(i)
			return low + time.Duration(float64(bucketStart(i+1)-low)*(rank-before)/float64(n)), true
		}
		before += float64(n)
	}
	return bucketStart(LatencyBuckets), true
}

func bucketStart(i int) time.Duration {
	if i == 0 {
		return 0
	}
	return time.Millisecond << (i - 1)
}
