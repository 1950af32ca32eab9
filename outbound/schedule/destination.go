package schedule

import (
	"time"

	"github.com/eventhook/eventhook"
)

// Destination is the configuration of a destination, as far as the scheduler needs it.
type Destination struct {
	ID       eventhook.DestinationID
	TenantID eventhook.TenantID
	// RouteID and TargetIndex name the target of a route. They are for the caller,
	// which looks the destination up again: the scheduler does not use them.
	RouteID     eventhook.RouteID
	TargetIndex int
	Version     int64            // of the configuration: an older one never replaces a newer one
	Address     eventhook.Secret // a change closes the circuit
	Ready       bool             // this gateway may send to it: not paused, not deleted
	Slots       int              // sends at once, from this instance
	PerSecond   int              // sends per second, from all instances; 0: no limit
	Timeout     time.Duration    // of one send
}

// differs reports whether sends to the destination deserve a new start: it has
// another address, or was not ready before.
func (d Destination) differs(old Destination) bool {
	return !d.Address.Equal(old.Address) || d.Ready && !old.Ready
}
