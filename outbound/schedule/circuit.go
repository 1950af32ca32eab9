package schedule

import "time"

// maxRetryAfter bounds the backoff that a receiver can request by Retry-After.
const maxRetryAfter = time.Hour

// circuit is the circuit breaker of one destination, with its backoff.
type circuit struct {
	breaker      breaker
	failingSince time.Time // the first failure since the last success; zero: the last attempt succeeded
	backoffUntil time.Time // nothing is sent before this time
}

func newCircuit(maxSlots int) circuit { return circuit{breaker: newBreaker(maxSlots)} }

// reset closes the circuit and ends the backoff.
func (c *circuit) reset(maxSlots int) {
	c.breaker.reset(maxSlots)
	c.backoffUntil = time.Time{}
}

func (c *circuit) inBackoff(now time.Time) bool { return now.Before(c.backoffUntil) }

// delay sends nothing to the destination before a time. It never shortens a backoff.
func (c *circuit) delay(until time.Time) {
	if until.After(c.backoffUntil) {
		c.backoffUntil = until
	}
}

// observation is an attempt that ended at a time. epoch is that of the breaker when the attempt
// began. isKnown says that the delivery has failed before since it was released: its failure
// says nothing new about the destination.
type observation struct {
	Attempt
	at       time.Time
	epoch    int
	maxSlots int
	isKnown  bool
}

// apply applies an attempt. It reports whether the circuit opens, or stays open after a
// probe, and until when the caller must delay the destination; zero: no delay.
func (c *circuit) apply(o observation, chance func() float64) (opens bool, backoff time.Time) {
	if o.Succeeded {
		c.failingSince = time.Time{}
	} else if c.failingSince.IsZero() {
		c.failingSince = o.at.Add(-o.Took)
	}
	switch {
	case !o.Failed:
		c.breaker.succeed(o.epoch, o.maxSlots)
	case c.breaker.state != Open && o.isKnown:
	case c.breaker.fail(o.epoch):
		opens, backoff = true, o.at.Add(c.breaker.probeDelay(chance()))
	}
	if until := o.at.Add(min(o.RetryAfter, maxRetryAfter)); o.RetryAfter > 0 && until.After(backoff) {
		backoff = until
	}
	return opens, backoff
}

// outage returns the current series of failures.
func (c *circuit) outage() (o Outage) {
	if !c.failingSince.IsZero() {
		o = Outage{c.failingSince, c.breaker.state == Open}
	}
	return o
}
