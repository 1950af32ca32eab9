package schedule

import "time"

// State is the state of a destination's circuit breaker.
type State string

// The states of a circuit breaker.
const (
	Closed   State = "closed"    // deliveries are sent
	Open     State = "open"      // one probe at a time is sent, after a backoff
	HalfOpen State = "half_open" // a probe succeeded; the limit grows with each success
)

const (
	firstSlots  = 4 // sends at once to a destination of which nothing is known
	maxFailures = 5 // in a row, then the circuit opens
	firstProbe  = time.Second
	maxProbe    = 30 * time.Second // the longest backoff between two probes
)

// breaker limits the sends at once to one destination, and stops them when it
// fails.
type breaker struct {
	state    State
	slots    int // sends at once, at most
	failures int // in a row
	openings int // since the circuit was closed last
	epoch    int // counts openings and resets: results of an older epoch are ignored
}

// newBreaker returns a closed breaker for a destination that allows most sends at
// once.
func newBreaker(most int) breaker { return breaker{state: Closed, slots: min(firstSlots, most)} }

// reset closes the circuit, and ignores results of sends that are in progress.
func (b *breaker) reset(most int) {
	epoch := b.epoch + 1
	*b = newBreaker(most)
	b.epoch = epoch
}

// succeed counts the success of a send that began in an epoch.
func (b *breaker) succeed(epoch, most int) {
	if epoch != b.epoch {
		return
	}
	b.failures = 0
	b.slots = min(b.slots+1, most)
	if b.state == Open {
		b.state = HalfOpen
	}
	if b.state == HalfOpen && b.slots >= min(firstSlots, most) {
		b.state, b.openings = Closed, 0
	}
}

// fail counts the failure of a send that began in an epoch. It reports whether the
// circuit opens, or stays open after a probe.
func (b *breaker) fail(epoch int) (opens bool) {
	if epoch != b.epoch {
		return false
	}
	b.failures++
	b.slots = max(1, b.slots/2)
	if b.state == Closed && b.failures < maxFailures {
		return false
	}
	b.state, b.slots = Open, 1
	b.openings++
	b.epoch++
	return true
}

// backoff is how long to wait for the next probe: up to a fifth less than the full
// time, where chance is between 0 and 1.
func (b *breaker) backoff(chance float64) time.Duration {
	const maxDoublings = 6 // reach maxProbe
	full := min(firstProbe<<min(b.openings-1, maxDoublings), maxProbe)
	return time.Duration(float64(full) * (1 - chance/5))
}
