package schedule

import (
	"time"

	"github.com/eventhook/eventhook"
)

// class separates first attempts from retries, so that retries to failing
// destinations do not delay new deliveries.
type class int

const (
	first class = iota
	retry
	classes
)

func classOf(d *eventhook.Delivery) class {
	if d.RetryCount > 0 {
		return retry
	}
	return first
}

const (
	firstWindow = 64 // deliveries in memory for a destination of which nothing is known
	queueShare  = 8  // a queue gets at most this part of the memory
)

// queue holds the deliveries of one destination, with its limits and its circuit breaker.
type queue struct {
	Destination // as it was last looked up
	tenant      *tenant
	waiting     [classes]fifo[*eventhook.Delivery]
	isReady     [classes]bool // the queue is in its tenant's round robin

	held    int // deliveries that are reserved, waiting or being sent
	bytes   int // of deliveries that wait or are being sent
	sending int
	breaker breaker
	rate    rate

	backoffUntil time.Time     // nothing is sent before
	window       int           // deliveries in memory, by how many were sent in time
	meanTook     time.Duration // of the latest sends
	hasBacklog   bool          // more deliveries may be due in the database
	nextRetryAt  time.Time     // when the earliest known retry is due; zero: no retry is known
	isClaiming   bool          // the queue waits for its claim
	usedAt       time.Time
	timer        timer
}

func newQueue(d Destination, of *tenant) *queue {
	q := &queue{Destination: d, tenant: of, breaker: newBreaker(d.Slots), window: firstWindow}
	q.timer.queue = q
	q.rate.set(d.PerSecond)
	return q
}

// configure applies the current configuration of the destination.
func (q *queue) configure(d Destination) {
	if d.differs(q.Destination) {
		q.breaker.reset(d.Slots)
		q.backoffUntil, q.hasBacklog = time.Time{}, true
	}
	q.Destination = d
	q.rate.set(d.PerSecond)
}

func (q *queue) count() int { return q.waiting[first].len() + q.waiting[retry].len() }

// slots is how many sends may be in progress.
func (q *queue) slots() int { return min(q.breaker.slots, q.Slots) }

func (q *queue) inBackoff(now time.Time) bool { return now.Before(q.backoffUntil) }

// maySend reports whether the queue itself allows a send now.
func (q *queue) maySend(now time.Time) bool {
	return q.sending < q.slots() && !q.inBackoff(now) && q.rate.allows(now)
}

// capacity is how many deliveries the queue may hold: as many as it can probably
// send within half a lease, and with an open circuit one, the probe.
func (q *queue) capacity(now time.Time, lease time.Duration) int {
	switch {
	case q.inBackoff(now) || !q.Ready:
		return 0
	case q.breaker.state == Open:
		return 1
	}
	most, span := q.window, lease/2
	if q.meanTook > 0 {
		most = min(most, max(1, int(span/q.meanTook))*q.slots())
	}
	if q.rate.interval > 0 {
		most = min(most, max(1, int(span/q.rate.interval)))
	}
	return most
}

// wakeAt is when the queue must be looked at again, zero if never.
func (q *queue) wakeAt(now time.Time) (at time.Time) {
	if q.count() > 0 || q.hasBacklog {
		if at = q.backoffUntil; q.rate.interval > 0 && q.rate.reserved > 0 && q.rate.next.After(at) {
			at = q.rate.next
		}
		if !at.After(now) {
			at = time.Time{} // the queue is ready already
		}
	}
	if !q.nextRetryAt.IsZero() && (at.IsZero() || q.nextRetryAt.Before(at)) {
		at = q.nextRetryAt
	}
	return at
}

// expectRetry notes when a retry will be due in the database.
func (q *queue) expectRetry(at time.Time) {
	if q.nextRetryAt.IsZero() || at.Before(q.nextRetryAt) {
		q.nextRetryAt = at
	}
}

// observe updates the mean duration of a send.
func (q *queue) observe(took time.Duration) {
	const weight = 8 // the latest send counts for an eighth
	if q.meanTook == 0 {
		q.meanTook = took
	}
	q.meanTook += (took - q.meanTook) / weight
}
