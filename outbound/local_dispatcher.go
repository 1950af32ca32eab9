package outbound

import (
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/outbound/schedule"
)

// LocalDispatcher is this instance's room for deliveries that it sends itself. Reserve
// grants some of n to a destination, and says when their lease ends; each
// granted one is then enqueued or released. NotifyDue hears that deliveries were
// stored which nobody here takes. Once enqueued, a delivery and its event are read on
// several sides, and the event must not be changed.
type LocalDispatcher interface {
	Reserve(to schedule.Destination, n int) (granted int, until time.Time)
	Release(to eventhook.DestinationID, n int)
	Enqueue(list []*eventhook.Delivery)
	NotifyDue()
}

// addressees are the subscriptions that get one event, and its deliveries to
// them, in the same order.
type addressees struct {
	subscriptions []*eventhook.Subscription
	deliveries    []*eventhook.Delivery
}

// deliveriesOf makes an event's deliveries.
func deliveriesOf(e *eventhook.Event, to []*eventhook.Subscription) addressees {
	if len(to) == 0 {
		return addressees{}
	}
	all, list := make([]eventhook.Delivery, len(to)), make([]*eventhook.Delivery, len(to))
	for i, s := range to {
		all[i] = eventhook.Delivery{
			ID: eventhook.DeliveryIDOf(e.ID, eventhook.DestinationID(s.ID)), TenantID: e.TenantID, DestinationID: eventhook.DestinationID(s.ID), SubscriptionID: s.ID, EventID: e.ID, EventType: e.EventType,
			Status: eventhook.DeliveryPending, Event: e,
		}
		list[i] = &all[i]
	}
	return addressees{to, list}
}

// reserve leases to this instance what it has room for. What nobody sends now
// stays unleased, and so does what agents send.
func (a addressees) reserve(room LocalDispatcher) {
	for i, s := range a.subscriptions {
		if !isSendable(s) {
			continue
		}
		leaseTo(room, scheduled(s), a.deliveries[i])
	}
}

// leaseTo leases a delivery to this instance if there is room for its destination.
func leaseTo(room LocalDispatcher, to schedule.Destination, d *eventhook.Delivery) {
	if granted, until := room.Reserve(to, 1); granted > 0 {
		d.Status, d.Lease = eventhook.DeliveryAcquired, eventhook.Lease{Token: 1, Until: until}
	}
}

// release gives the room back. Doing it again gives back nothing.
func (a addressees) release(room LocalDispatcher) { release(room, a.deliveries) }

func release(room LocalDispatcher, list []*eventhook.Delivery) {
	for _, d := range list {
		if isLeased(d) {
			d.Status, d.Lease = eventhook.DeliveryPending, eventhook.Lease{}
			room.Release(d.DestinationID, 1)
		}
	}
}

// handOver passes on what is leased to this instance, now that it is stored,
// and tells if there is more.
func handOver(room LocalDispatcher, stored []addressees, requests []*eventhook.Delivery) {
	var leased []*eventhook.Delivery
	left := false
	for _, d := range requests {
		if isLeased(d) {
			leased = append(leased, d)
		} else {
			left = true
		}
	}
	for _, a := range stored {
		for i, d := range a.deliveries {
			if isLeased(d) {
				leased = append(leased, d)
			} else {
				left = left || a.subscriptions[i].Status == eventhook.SubscriptionActive
			}
		}
	}
	if len(leased) > 0 {
		room.Enqueue(leased)
	}
	if left {
		room.NotifyDue()
	}
}

func isLeased(d *eventhook.Delivery) bool { return d.Lease.Token > 0 }
