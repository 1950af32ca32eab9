package outbound

import (
	"time"

	"github.com/eventhook/eventhook"
)

// DeliverySettlement is what becomes of a leased delivery.
type DeliverySettlement struct {
	Delivery   *eventhook.Delivery
	Attempt    *eventhook.Attempt       // nil: none was made, such as of one that is too old
	Status     eventhook.DeliveryStatus // DeliverySuccess, DeliveryFailed or DeliveryDead
	RetryCount int
	DueAt      time.Time // of DeliveryFailed: when it is tried again
	LastError  string    // for people; "" of a success
	// Disable, unless "", is why the subscription is to be disabled at once, such
	// as the 410 of a receiver that is gone.
	Disable string
	// DeadInRow is after how many dead deliveries in a row the subscription is
	// disabled; 0: never.
	DeadInRow int
	// IsTest says that neither its success nor its death counts for that, and
	// that nobody is told of it.
	IsTest bool
	// EventStatus is set by the store if the settlement ended the event of a route's
	// delivery: EventDelivered or EventDead. Of the settlements of one event in a
	// batch, one has it.
	EventStatus eventhook.EventStatus
}

// DueDestination is a destination for which deliveries are due.
type DueDestination struct {
	TenantID      eventhook.TenantID
	DestinationID eventhook.DestinationID
	RouteID       eventhook.RouteID // zero of a subscription
	TargetIndex   int               // of a route's target
}

// Destination is where the due deliveries go.
func (d DueDestination) Destination() eventhook.Destination {
	return destinationOf(d.TenantID, d.DestinationID, d.RouteID, d.TargetIndex)
}

// destinationOf names a subscription by the id of the destination, and a route's target
// by its route.
func destinationOf(tenant eventhook.TenantID, id eventhook.DestinationID, route eventhook.RouteID, index int) eventhook.Destination {
	if route.IsZero() {
		return eventhook.Destination{TenantID: tenant, SubscriptionID: eventhook.SubscriptionID(id)}
	}
	return eventhook.Destination{TenantID: tenant, RouteID: route, TargetIndex: index}
}

// Claim asks for up to Max due deliveries of a destination, leased until now + Lease:
// the ones that were due first. With TriedFirst it asks for deliveries that were tried
// before, the oldest first, and for others only if none of them is due.
type Claim struct {
	DestinationID eventhook.DestinationID
	Max           int
	Lease         time.Duration
	TriedFirst    bool
}

// SendReservation reserves Count sends to a destination that allows PerSecond.
type SendReservation struct {
	DestinationID eventhook.DestinationID
	Count         int
	PerSecond     int
}

// PublishItem is an event that a tenant publishes, with what is made of it in the
// same transaction.
type PublishItem struct {
	Event      *eventhook.Event
	Deliveries []*eventhook.Delivery
	// Generation is that of the tenant's subscriptions against which the event
	// was matched. IsStale says that it is not the current one, and that nothing
	// was stored: match it again.
	Generation int64
	IsStale    bool
	// Count is how many deliveries the event has, once it is stored: of a
	// duplicate those of the first.
	Count int
}
