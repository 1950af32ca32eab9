package schedule

import (
	"time"

	"github.com/eventhook/eventhook"
)

// Destination is the configuration of a destination, as far as the scheduler needs it.
type Destination struct {
	ID       eventhook.DestinationID
	TenantID eventhook.TenantID
	// RouteID and TargetIndex name the target of a route. The scheduler does not use
	// them. The caller needs them to look up the destination again.
	RouteID     eventhook.RouteID
	TargetIndex int
	Version     int64            // of the configuration: an older one never replaces a newer one
	Address     eventhook.Secret // a change closes the circuit
	Ready       bool             // this gateway may send to the destination, which is neither paused nor deleted
	Slots       int              // maximum number of concurrent sends from this instance
	PerSecond   int              // sends per second, from all instances together; 0: no limit
	Timeout     time.Duration    // of one send
	// HeldBefore is when the destination was last enabled: deliveries of older events were
	// held, and wait for newer ones.
	HeldBefore time.Time
}

// resetsBreaker reports whether a change from old to d resets the circuit breaker: the
// address is another one, or the destination became ready.
func (d Destination) resetsBreaker(old Destination) bool {
	return !d.Address.Equal(old.Address) || d.Ready && !old.Ready
}
