package outbound

import (
	"net/http"
	"time"

	"github.com/eventhook/eventhook"
)

// BreakerState says how much an endpoint is trusted.
type BreakerState string

// The states of a breaker.
const (
	BreakerClosed   BreakerState = "closed"    // all is well
	BreakerOpen     BreakerState = "open"      // one probe at a time, with pauses
	BreakerHalfOpen BreakerState = "half_open" // a probe has succeeded; more and more is sent
)

// What a breaker goes by.
const (
	firstSlots  = 4 // sends at once to an endpoint of which nothing is known
	mostInRow   = 5 // failures, and the breaker opens
	firstProbe  = time.Second
	longestWait = 30 * time.Second // between two probes
)

// breaker finds out how many sends at once an endpoint bears. Each success
// allows one more, each failure half as many, down to one; after mostInRow
// failures it opens. Then only what a probe says counts: what was under way
// before does not.
type breaker struct {
	state    BreakerState
	slots    int
	failures int // in a row
	openings int // since it was closed
	epoch    int // grows when it opens
}

func newBreaker(most int) breaker {
	return breaker{state: BreakerClosed, slots: min(firstSlots, most)}
}

// succeeded notes a success of a send that was begun in an epoch, where most is
// how many the subscription allows at once.
func (b *breaker) succeeded(epoch, most int) {
	if epoch != b.epoch {
		return
	}
	b.failures = 0
	if b.slots = min(b.slots+1, most); b.state == BreakerOpen {
		b.state = BreakerHalfOpen
	}
	if b.state == BreakerHalfOpen && b.slots >= min(firstSlots, most) {
		b.state, b.openings = BreakerClosed, 0
	}
}

// failed notes a failure of a send that was begun in an epoch. It reports
// whether the breaker opens, or stays open after a probe.
func (b *breaker) failed(epoch int) (opens bool) {
	if epoch != b.epoch {
		return false
	}
	b.failures++
	b.slots = max(1, b.slots/2)
	if b.state == BreakerClosed && b.failures < mostInRow {
		return false
	}
	b.state, b.slots = BreakerOpen, 1
	b.openings++
	b.epoch++
	return true
}

// wait is how long to wait for the next probe, where chance is between 0 and 1.
func (b *breaker) wait(chance float64) time.Duration {
	const enough = 6 // doublings to reach longestWait
	full := min(firstProbe<<min(b.openings-1, enough), longestWait)
	return time.Duration(float64(full) * (1 - chance/5))
}

// isTrouble reports whether a failed attempt says that the endpoint had better
// be left alone: it gave no answer, or one that says so.
func isTrouble(a eventhook.Attempt) bool {
	switch a.ErrorClass {
	case "", eventhook.ErrorHTTP:
		return false
	case eventhook.ErrorHTTP4xx:
		return a.StatusCode == http.StatusTooManyRequests
	default:
		return true
	}
}
