// Package wake wakes goroutines that wait for work.
package wake

// Signal wakes the goroutines that receive from it. Notify never blocks: a notification
// that was not received yet counts for all later ones. A receiver must therefore look
// for all of its work after each receive. Safe for concurrent use.
type Signal chan struct{}

// New returns a Signal that holds up to n notifications: 1 if one goroutine receives.
func New(n int) Signal { return make(Signal, n) }

// Notify wakes one receiver, now or at its next receive.
func (s Signal) Notify() {
	select {
	case s <- struct{}{}:
	default:
	}
}
