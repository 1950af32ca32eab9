package schedule

import "time"

// maxRetryAfter bounds how long a destination is left alone because its receiver asks
// for it.
const maxRetryAfter = time.Hour

// Result is how a job ended.
type Result struct {
	At          time.Time
	Destination Destination // as it is at that time
	IsGone      bool        // there is no such destination any more
	// Settled says that the outcome of the delivery is settled next; otherwise the
	// delivery is released.
	Settled bool
	RetryAt time.Time // of a settled delivery that is sent again; else zero
	IsLate  bool      // nothing was sent: the lease left no time for it
	// Backoff is for how long nothing is sent to the destination, such as when it
	// could not be looked up.
	Backoff time.Duration
	Attempt *Attempt // nil: nothing was sent
}

// Attempt is the part of an attempt that the scheduler uses.
type Attempt struct {
	Took       time.Duration
	Failed     bool          // the destination had better get fewer sends: no answer, 5xx, 429
	RetryAfter time.Duration // the receiver wants to get nothing for so long
}

// Finish ends a job, and returns the next one for its slot, if there is any.
func (s *Scheduler) Finish(j Job, r Result) (next Job, ok bool) {
	q := j.queue
	q.sending--
	q.tenant.sending[j.class]--
	s.sending[j.class]--
	q.leave(1, size(j.Delivery))
	if r.Settled {
		s.unsettled++
		if !r.RetryAt.IsZero() {
			q.expectRetry(r.RetryAt)
		}
	} else {
		q.hasBacklog = true
		s.release(j.Delivery)
	}
	s.learn(j, r)
	s.refresh(q, r.At)
	return s.Next(r.At)
}

// learn applies the result of a job to its queue.
func (s *Scheduler) learn(j Job, r Result) {
	q := j.queue
	s.configure(q, r.Destination)
	switch {
	case r.IsGone || !q.Ready:
		s.withdraw(q)
		q.hasBacklog = false
	case r.Backoff > 0:
		s.backOff(q, r.At.Add(r.Backoff))
	case r.IsLate:
		q.window = max(q.slots(), q.window/2)
	case r.Attempt != nil:
		q.observe(r.Attempt.Took)
		q.window = min(q.window+1, max(1, s.queueLimit()))
		s.learnAttempt(j, *r.Attempt, r.At)
	}
}

// learnAttempt updates the circuit breaker.
func (s *Scheduler) learnAttempt(j Job, a Attempt, now time.Time) {
	q := j.queue
	before := q.breaker.state
	if !a.Failed {
		q.breaker.succeed(j.epoch, q.Slots)
	} else if q.breaker.fail(j.epoch) {
		s.backOff(q, now.Add(q.breaker.backoff(s.chance())))
	}
	if a.RetryAfter > 0 {
		s.backOff(q, now.Add(min(a.RetryAfter, maxRetryAfter)))
	}
	s.countOpen(before, q.breaker.state)
}

// backOff sends nothing to a destination before a time, and releases its waiting
// deliveries. It never shortens a backoff.
func (s *Scheduler) backOff(q *queue, until time.Time) {
	if until.After(q.backoffUntil) {
		q.backoffUntil = until
	}
	s.withdraw(q)
	q.hasBacklog = true
}
