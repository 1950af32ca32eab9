package schedule

import "time"

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
	if s.isFull(q, r.At) {
		q.fullUntil = r.At
	}
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

// isFull reports whether the queue itself cannot start another send: all of its slots are used,
// or it may not claim more deliveries of a slow destination.
func (s *Scheduler) isFull(q *queue, now time.Time) bool {
	return q.sending >= q.slots() || q.count() == 0 && q.held > q.capacity(now, s.config.Lease)/2
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
	if j.class == recovered {
		q.recovery.finish(a.Succeeded, q.Slots)
	}
	opens, backoff := q.circuit.apply(observation{Attempt: a, at: now, epoch: j.epoch, maxSlots: q.Slots, isKnown: isKnownFailure(j.Delivery)}, s.chance)
	if opens {
		q.recovery.restart()
	}
	if !backoff.IsZero() {
		s.delayQueue(q, backoff)
	}
	s.countOpen(before, q.breaker.state)
}

// delayQueue sends nothing to a destination before a time, and releases its waiting
// deliveries. It never shortens a backoff.
func (s *Scheduler) delayQueue(q *queue, until time.Time) {
	q.delay(until)
	s.releaseWaiting(q)
	q.hasBacklog = true
}
