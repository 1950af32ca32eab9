package schedule

import "time"

// maxRetryAfter bounds the backoff that a receiver can request by Retry-After.
const maxRetryAfter = time.Hour

// Result is how a job ended.
type Result struct {
	At          time.Time
	Destination Destination // the configuration at that time
	IsGone      bool        // the destination was deleted
	// Settled says that the caller settles the outcome of the delivery next. Otherwise
	// the delivery is released.
	Settled bool
	RetryAt time.Time // when a settled delivery is retried; zero: it is not retried
	IsLate  bool      // nothing was sent, because the lease would have run out during the send
	// Backoff is how long no delivery is sent to the destination, for example because it
	// could not be looked up; 0: no backoff.
	Backoff time.Duration
	Attempt *Attempt // nil: nothing was sent
}

// Attempt is the part of an attempt that the scheduler uses.
type Attempt struct {
	Took       time.Duration
	Succeeded  bool
	Failed     bool          // the destination should get fewer sends: no answer, 5xx or 429
	RetryAfter time.Duration // the backoff that the receiver requested; 0: none
}

// Finish ends a job and returns the next job for its slot, or false if no delivery may
// be sent now.
func (s *Scheduler) Finish(j Job, r Result) (next Job, ok bool) {
	q := j.queue
	q.sending--
	q.tenant.sending[j.class]--
	s.sending[j.class]--
	if j.class == recovered {
		q.recovery.sending--
	}
	q.subtract(1, size(j.Delivery))
	if r.Settled {
		s.unsettled++
		if !r.RetryAt.IsZero() {
			q.expectRetry(r.RetryAt)
		}
	} else {
		q.hasBacklog = true
		s.release(j.Delivery)
	}
	s.applyResult(j, r)
	s.refresh(q, r.At)
	return s.Next(r.At)
}

// applyResult applies the result of a job to its queue.
func (s *Scheduler) applyResult(j Job, r Result) {
	q := j.queue
	s.configure(q, r.Destination)
	switch {
	case r.IsGone || !q.Ready:
		s.releaseWaiting(q)
		q.hasBacklog = false
	case r.Backoff > 0:
		s.delayQueue(q, r.At.Add(r.Backoff))
	case r.IsLate && j.class == recovered: // it waited for new deliveries
	case r.IsLate:
		// The queue held more deliveries than it could send within their leases.
		q.window = max(q.slots(), q.window/2)
	case r.Attempt != nil:
		q.observe(r.Attempt.Took)
		q.window = min(q.window+1, max(1, s.queueLimit()))
		s.applyAttempt(j, *r.Attempt, r.At)
	}
}

// applyAttempt updates the circuit breaker.
func (s *Scheduler) applyAttempt(j Job, a Attempt, now time.Time) {
	q := j.queue
	before := q.breaker.state
	if a.Succeeded {
		q.failingSince = time.Time{}
	} else if q.failingSince.IsZero() {
		q.failingSince = now.Add(-a.Took)
	}
	if j.class == recovered {
		q.recovery.finish(a.Succeeded, q.Slots)
	}
	switch {
	case !a.Failed:
		q.breaker.succeed(j.epoch, q.Slots)
	case before != Open && isKnownFailure(j.Delivery):
	case q.breaker.fail(j.epoch):
		q.recovery.restart()
		s.delayQueue(q, now.Add(q.breaker.probeDelay(s.chance())))
	}
	if a.RetryAfter > 0 {
		s.delayQueue(q, now.Add(min(a.RetryAfter, maxRetryAfter)))
	}
	s.countOpen(before, q.breaker.state)
}

// delayQueue sends nothing to a destination before a time, and releases its waiting
// deliveries. It never shortens a backoff.
func (s *Scheduler) delayQueue(q *queue, until time.Time) {
	if until.After(q.backoffUntil) {
		q.backoffUntil = until
	}
	s.releaseWaiting(q)
	q.hasBacklog = true
}
