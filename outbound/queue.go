package outbound

import (
	"time"

	"github.com/eventhook/eventhook"
)

// DeliverySettlement is the outcome of a leased delivery.
type DeliverySettlement struct {
	Delivery   *eventhook.Delivery
	TargetType string                   // of the destination; "" for a subscription, and if the destination is deleted
	Attempt    *eventhook.Attempt       // nil: no attempt was made, for example because the delivery is too old
	Status     eventhook.DeliveryStatus // DeliverySuccess, DeliveryFailed or DeliveryDead
	RetryCount int
	DueAt      time.Time // when a DeliveryFailed is retried
	LastError  string    // a message for users; "" if the attempt succeeded
	// Disable is the reason why the subscription is disabled at once, such as an answer
	// of 410. It is "" if the subscription stays as it is.
	Disable string
	// DeadInRow is the number of consecutive dead deliveries after which the
	// subscription is disabled; 0: never.
	DeadInRow int
	// IsUncounted marks the delivery of a test event, and one that its subscription excludes
	// since a change of its scope_filter. The outcome counts neither for DeadInRow nor in
	// statistics, and the store creates no system event for it.
	IsUncounted bool
	// IsProbe marks a delivery that was dead before its probe. If it is dead again, this
	// does not count for DeadInRow, and the store creates no system event for it.
	IsProbe bool
	// IsStale says that the delivery is too old to be sent. If an outage explains its age,
	// the store makes it due again instead.
	IsStale bool
	// FailingSince is the time of the destination's first failure on this instance since
	// its last success; zero after a success and if it is unknown. CircuitOpen says that
	// its circuit breaker is open: the store records an outage since then.
	FailingSince time.Time
	CircuitOpen  bool
	// EventStatus is set by the store if the settlement completed the event of a
	// route's delivery: EventDelivered or EventDead. If a batch has several
	// settlements of one event, only one of them has it.
	EventStatus eventhook.EventStatus
	// NextIsDue is set by the store if the settlement ended an ordered delivery and made the
	// next delivery of its key due.
	NextIsDue bool
}

// DueDestination is a destination with due deliveries.
type DueDestination struct {
	TenantID      eventhook.TenantID
	DestinationID eventhook.DestinationID
	RouteID       eventhook.RouteID // zero: the destination is a subscription
	TargetIndex   int               // of the route's target
}

// Destination returns the destination.
func (d DueDestination) Destination() eventhook.Destination {
	return destinationRef(d.TenantID, d.DestinationID, d.RouteID, d.TargetIndex)
}

// destinationRef returns the reference to a destination: a subscription if route is zero,
// and a target of the route otherwise.
func destinationRef(tenant eventhook.TenantID, id eventhook.DestinationID, route eventhook.RouteID, index int) eventhook.Destination {
	if route.IsZero() {
		return eventhook.Destination{TenantID: tenant, SubscriptionID: eventhook.SubscriptionID(id)}
	}
	return eventhook.Destination{TenantID: tenant, RouteID: route, TargetIndex: index}
}

// Claim requests up to Max due deliveries of a destination, leased until now +
// Lease, the earliest due first. With TriedFirst, a claim returns the due deliveries
// that were tried before, the oldest first; if there are none, it returns untried
// deliveries.
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

// PublishItem is an event that a tenant publishes, with the deliveries that are stored in
// the same transaction.
type PublishItem struct {
	Event      *eventhook.Event
	Deliveries []*eventhook.Delivery
	// Generation is the generation of the tenant's subscriptions that the event was
	// matched against. The store sets IsStale if it is not the current generation. Then
	// nothing was stored, and the event must be matched again.
	Generation int64
	IsStale    bool
	// Count is the number of deliveries of the stored event. For a duplicate it is the
	// number of deliveries of the first event.
	Count int
}
