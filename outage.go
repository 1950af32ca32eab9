package eventhook

import "time"

// Outage is the current outage of a subscription with the number of missed deliveries. The zero
// value means that the subscription has no outage.
type Outage struct {
	FailingSince    *time.Time // the first failure after a success
	CircuitOpenedAt *time.Time
	NextProbeAt     *time.Time
	IsProbing       bool // an instance is sending a probe now
	// Missed counts the deliveries that an outage has held or killed and that are not sent
	// yet; at most MaxMissedCount.
	Missed   int
	Recovery *Replay // the running recovery; nil without one
}

// MaxMissedCount bounds Outage.Missed.
const MaxMissedCount = 10_000

// CircuitState is the state of a subscription's circuit breaker, for all instances together.
type CircuitState string

// The states of a circuit breaker.
const (
	CircuitClosed   CircuitState = "closed"    // deliveries are sent
	CircuitOpen     CircuitState = "open"      // nothing is sent but probes
	CircuitHalfOpen CircuitState = "half_open" // a probe is being sent
)

// Circuit returns the state of the circuit breaker.
func (o Outage) Circuit() CircuitState {
	switch {
	case o.FailingSince == nil:
		return CircuitClosed
	case o.IsProbing:
		return CircuitHalfOpen
	}
	return CircuitOpen
}
