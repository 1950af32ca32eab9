package outbound

import (
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/outbound/schedule"
)

// LocalDispatcher accepts deliveries that this instance stores. If the dispatcher has
// memory for a delivery, it is stored as leased to this instance and enqueued after the
// commit. All other deliveries are stored as due, and any instance claims them. Safe for
// concurrent use.
type LocalDispatcher interface {
	// Reserve reserves memory for up to n deliveries to a destination that are about to
	// be stored. It returns how many are granted, and the end of their leases. Each
	// granted delivery must be passed to Enqueue or Release.
	Reserve(to schedule.Destination, n int) (granted int, until time.Time)
	// Release frees memory that was reserved for n deliveries that were not stored.
	Release(to eventhook.DestinationID, n int)
	// Enqueue passes stored deliveries, leased to this instance, with their events.
	// Other goroutines read them from then on, so the events must not be changed.
	Enqueue(list []*eventhook.Delivery)
	// NotifyDue reports that due deliveries were stored that are not leased to this
	// instance.
	NotifyDue()
}

// eventDeliveries are the subscriptions that receive one event, and its deliveries to
// them, in the same order.
type eventDeliveries struct {
	subscriptions []*eventhook.Subscription
	deliveries    []*eventhook.Delivery
}

// newEventDeliveries creates the deliveries of an event. keys are nil or order them.
func newEventDeliveries(e *eventhook.Event, to []*eventhook.Subscription, keys []eventhook.OrderKey) eventDeliveries {
	if len(to) == 0 {
		return eventDeliveries{}
	}
	all, list := make([]eventhook.Delivery, len(to)), make([]*eventhook.Delivery, len(to))
	for i, s := range to {
		all[i] = eventhook.Delivery{
			ID: eventhook.DeliveryIDOf(e.ID, eventhook.DestinationID(s.ID)), TenantID: e.TenantID, DestinationID: eventhook.DestinationID(s.ID), SubscriptionID: s.ID, EventID: e.ID, EventType: e.EventType,
			Status: eventhook.DeliveryPending, Event: e,
		}
		if keys != nil {
			all[i].OrderKey = keys[i]
		}
		list[i] = &all[i]
	}
	return eventDeliveries{to, list}
}

// visible counts the deliveries that the tenant of the event sees: all except deliveries to
// operator subscriptions.
func (a eventDeliveries) visible() (n int) {
	for _, s := range a.subscriptions {
		if !s.IsOperator() {
			n++
		}
	}
	return n
}

// reserve leases deliveries to this instance as far as the dispatcher has memory for them.
// Deliveries of subscriptions that this gateway does not send to, such as paused ones and
// the subscriptions of agents, stay unleased. The store ends the leases of ordered deliveries
// that must wait.
func (a eventDeliveries) reserve(dispatcher LocalDispatcher) {
	for i, s := range a.subscriptions {
		if !isSendable(s) {
			continue
		}
		leaseTo(dispatcher, schedulerDestination(s), a.deliveries[i])
	}
}

// leaseTo leases a delivery to this instance if the dispatcher has memory for its
// destination.
func leaseTo(dispatcher LocalDispatcher, to schedule.Destination, d *eventhook.Delivery) {
	if granted, until := dispatcher.Reserve(to, 1); granted > 0 {
		d.Status, d.Lease = eventhook.DeliveryAcquired, eventhook.Lease{Token: 1, Until: until}
	}
}

// release ends the leases and frees the reserved memory. Further calls have no effect.
func (a eventDeliveries) release(dispatcher LocalDispatcher) { release(dispatcher, a.deliveries) }

func release(dispatcher LocalDispatcher, list []*eventhook.Delivery) {
	for _, d := range list {
		if isReserved(d) {
			d.Status, d.Lease = eventhook.DeliveryPending, eventhook.Lease{}
			dispatcher.Release(d.DestinationID, 1)
		}
	}
}

// enqueueStored passes the stored deliveries that are leased to this instance to the
// dispatcher, and notifies it if further deliveries are due.
func enqueueStored(dispatcher LocalDispatcher, stored []eventDeliveries, requests []*eventhook.Delivery) {
	var leased, waiting []*eventhook.Delivery
	hasDue := false
	for _, d := range requests {
		if isLeased(d) {
			leased = append(leased, d)
		} else {
			hasDue = true
		}
	}
	for _, a := range stored {
		for i, d := range a.deliveries {
			switch {
			case isLeased(d):
				leased = append(leased, d)
			case isReserved(d): // it waits for earlier deliveries of its key
				waiting = append(waiting, d)
			default:
				hasDue = hasDue || a.subscriptions[i].Status == eventhook.SubscriptionActive
			}
		}
	}
	release(dispatcher, waiting)
	if len(leased) > 0 {
		dispatcher.Enqueue(leased)
	}
	if hasDue {
		dispatcher.NotifyDue()
	}
}

func isLeased(d *eventhook.Delivery) bool { return d.Lease.Token > 0 }

// isReserved reports whether memory is reserved for a delivery, leased or not.
func isReserved(d *eventhook.Delivery) bool { return !d.Lease.Until.IsZero() }
