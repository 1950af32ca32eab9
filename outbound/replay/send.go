package replay

import (
	"context"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/outbound/match"
)

// SendStore stores deliveries of single events.
type SendStore interface {
	// Event returns an event of a tenant, or KindNotFound.
	Event(ctx context.Context, tenant eventhook.TenantID, id eventhook.EventID) (eventhook.Event, error)
	// ReadReplayEvents sets Event of the deliveries, with the payload; see Store.
	ReadReplayEvents(ctx context.Context, list []*eventhook.Delivery) (n int, err error)
	// QueueDelivery makes a delivery to a subscription due, with all its retries, in one
	// transaction. It creates the delivery if it does not exist, and leaves it as it is if it
	// is open. The error is KindConflict if the subscription is disabled, or if the event's
	// data is past its retention.
	QueueDelivery(ctx context.Context, by eventhook.Actor, to eventhook.Subscription, d *eventhook.Delivery) (created bool, err error)
}

// Sender sends single events to a subscription at the request of a caller.
type Sender struct{ Store SendStore }

var (
	errOtherScope = &eventhook.Error{Kind: eventhook.KindConflict,
		Message: "The scope of the event does not match the scope_filter of the subscription."}
	errNotVisible = eventhook.NotFound("event")
	errNoData     = &eventhook.Error{Kind: eventhook.KindConflict, Message: "The event's data is past its retention, so it cannot be sent."}
)

// SendEvent queues the delivery of one event to a subscription, whatever its event types and
// its filter, and returns the id of the delivery. created is false if the delivery existed: it
// is due again, unless it was open. The error is KindNotFound if the tenant has no such event,
// and KindConflict if the scope of the event does not match the subscription, or if nothing
// can be sent.
func (s Sender) SendEvent(ctx context.Context, by eventhook.Actor, to eventhook.Subscription,
	id eventhook.EventID) (delivery eventhook.DeliveryID, created bool, err error) {
	e, err := s.Store.Event(ctx, to.TenantID, id)
	if err != nil {
		return delivery, false, err
	}
	if !eventhook.IsVisibleToTenants(e.EventType) && e.Origin == eventhook.OriginSystem {
		return delivery, false, errNotVisible
	}
	of := eventhook.DestinationID(to.ID)
	d := &eventhook.Delivery{ID: eventhook.DeliveryIDOf(id, of), TenantID: to.TenantID, DestinationID: of, SubscriptionID: to.ID,
		EventID: id, EventType: e.EventType}
	if _, err := s.Store.ReadReplayEvents(ctx, []*eventhook.Delivery{d}); err != nil {
		return delivery, false, err
	}
	switch {
	case d.Event.Body == nil && e.BodySize > 0:
		return delivery, false, errNoData
	case !match.Scope(to.ScopeFilter, d.Event):
		return delivery, false, errOtherScope
	}
	d.OrderKey = match.OrderKey(to.OrderedBy, d.Event)
	d.Event = nil
	created, err = s.Store.QueueDelivery(ctx, by, to, d)
	return d.ID, created, err
}
