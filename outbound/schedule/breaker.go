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
	firstSlots  = 4 // concurrent sends to a destination without a history
	maxFailures = 5 // consecutive failures that open the circuit
	firstProbe  = time.Second
	maxProbe    = 30 * time.Second // the longest backoff between two probes
)

// breaker limits the concurrent sends to one destination, and stops them while the
// destination fails.
type breaker struct {
	state    State
	slots    int // maximum number of concurrent sends
	failures int // consecutive
	openings int // since the circuit was last closed
	epoch    int // counts openings and resets: results of an older epoch are ignored
}

// newBreaker returns a closed breaker for a destination that allows maxSlots concurrent
// sends.
func newBreaker(maxSlots int) breaker {
	return breaker{state: Closed, slots: min(firstSlots, maxSlots)}
}

// reset closes the circuit. The results of sends in progress are ignored.
func (b *breaker) reset(maxSlots int) {
	epoch := b.epoch + 1
	*b = newBreaker(maxSlots)
	b.epoch = epoch
}

// succeed counts the success of a send that began in an epoch.
func (b *breaker) succeed(epoch, maxSlots int) {
	if epoch != b.epoch {
		return
	}
	b.failures = 0
	b.slots = min(b.slots+1, maxSlots)
	if b.state == Open {
		b.state = HalfOpen
	}
	if b.state == HalfOpen && b.slots >= min(firstSlots, maxSlots) {
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

// probeDelay returns how long to wait before the next probe: firstProbe, doubled with each
// opening up to maxProbe. The jitter shortens it by up to a fifth, so that destinations
// that failed together are not probed together. chance is between 0 and 1.
func (b *breaker) probeDelay(chance float64) time.Duration {
	const (
		maxDoublings = 6 // enough to reach maxProbe
		maxJitter    = 0.2
	)
	full := min(firstProbe<<min(b.openings-1, maxDoublings), maxProbe)
	jitter := maxJitter * chance
	return time.Duration(float64(full) * (1 - jitter))
}
