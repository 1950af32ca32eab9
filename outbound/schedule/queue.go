package schedule

import (
	"time"

	"github.com/eventhook/eventhook"
)

// class separates first attempts at new events from retries and from recovered deliveries, so
// that these do not delay new deliveries.
type class int

const (
	first class = iota
	retry
	recovered
	classes
)

func (q *queue) classOf(d *eventhook.Delivery) class {
	switch {
	case d.RetryCount > 0:
		return retry
	case q.isRecovered(d):
		return recovered
	}
	return first
}

const (
	firstWindow = 64 // deliveries in memory for a destination without a history
	queueShare  = 8  // a queue uses at most 1/queueShare of the memory
)

// queue holds the deliveries of one destination, with its limits and its circuit breaker.
type queue struct {
	Destination // the latest known configuration
	tenant      *tenant
	waiting     [classes]fifo[*eventhook.Delivery]
	isReady     [classes]bool // the queue is in its tenant's round robin

	held    int // deliveries that are reserved, waiting or being sent
	bytes   int // of deliveries that wait or are being sent
	sending int
	circuit
	rate rate

	recovery recovery

	fullUntil   time.Time     // when a send last ended while the queue could not start another one
	window      int           // limit of deliveries in memory; one more after each attempt, halved when a lease was too short
	meanTook    time.Duration // moving average of the latest sends
	hasBacklog  bool          // more deliveries may be due in the database
	nextRetryAt time.Time     // when the earliest known retry is due; zero: no retry is known
	isClaiming  bool          // the queue is in Scheduler.claims
	usedAt      time.Time
	timer       timer
}

func newQueue(d Destination, owner *tenant) *queue {
	q := &queue{Destination: d, tenant: owner, circuit: newCircuit(d.Slots), window: firstWindow}
	q.timer.queue = q
	q.rate.set(d.PerSecond)
	return q
}

// configure applies the current configuration of the destination.
func (q *queue) configure(d Destination) {
	if d.resetsBreaker(q.Destination) {
		q.circuit.reset(d.Slots)
		q.recovery.restart()
		q.hasBacklog = true
	}
	q.Destination = d
	q.rate.set(d.PerSecond)
}

func (q *queue) count() (n int) {
	for c := range q.waiting {
		n += q.waiting[c].len()
	}
	return n
}

// slots returns how many sends may be in progress.
func (q *queue) slots() int { return min(q.breaker.slots, q.Slots) }

// maySend reports whether the limits of the queue itself allow a send now.
func (q *queue) maySend(now time.Time) bool {
	return q.sending < q.slots() && !q.inBackoff(now) && q.rate.allows(now)
}

// readyAt returns when the limits of the queue itself last began to allow a send. It must be
// called while they do.
func (q *queue) readyAt() (at time.Time) {
	if at = q.fullUntil; q.backoffUntil.After(at) {
		at = q.backoffUntil
	}
	if q.rate.interval > 0 && q.rate.next.After(at) {
		at = q.rate.next
	}
	return at
}

// capacity returns how many deliveries the queue may hold: as many as it can probably
// send within half a lease, so that no lease runs out before the send. With an open
// circuit the capacity is 1, for the probe.
func (q *queue) capacity(now time.Time, lease time.Duration) int {
	switch {
	case q.inBackoff(now) || !q.Ready:
		return 0
	case q.breaker.state == Open:
		return 1
	}
	capacity, sendTime := q.window, lease/2
	if q.meanTook > 0 {
		sendsPerSlot := max(1, int(sendTime/q.meanTook))
		capacity = min(capacity, sendsPerSlot*q.slots())
	}
	if q.rate.interval > 0 {
		sendsByRate := max(1, int(sendTime/q.rate.interval))
		capacity = min(capacity, sendsByRate)
	}
	return capacity
}

// wakeAt returns when a timer must refresh the queue: at the end of a backoff, at the next
// reserved send, or when a retry is due. It returns the zero time if the queue needs no
// timer.
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

// expectRetry records when a retry will be due in the database.
func (q *queue) expectRetry(at time.Time) {
	if q.nextRetryAt.IsZero() || at.Before(q.nextRetryAt) {
		q.nextRetryAt = at
	}
}

// observe updates the mean duration of a send.
func (q *queue) observe(took time.Duration) {
	const weight = 8 // the latest send has a weight of 1/8
	if q.meanTook == 0 {
		q.meanTook = took
	}
	q.meanTook += (took - q.meanTook) / weight
}
