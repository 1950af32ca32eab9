package api

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/eventhook/eventhook"
)

// EventSender queues one stored event for one subscription.
type EventSender interface {
	// SendEvent queues the delivery of an event to a subscription, whatever the patterns and
	// the filter of the subscription say, and returns its id. created is false if the
	// delivery existed. The error is KindNotFound if the tenant has no such event, and
	// KindConflict if the scope of the event does not match the subscription, or if the
	// event's data is past its retention.
	SendEvent(ctx context.Context, by eventhook.Actor, to eventhook.Subscription, id eventhook.EventID) (delivery eventhook.DeliveryID, created bool, err error)
}

// SubscriptionSend names the event to send.
type SubscriptionSend struct {
	EventID string `json:"event_id" doc:"Id of the event to send."`
}

// SubscriptionSent identifies the delivery.
type SubscriptionSent struct {
	DeliveryID string `json:"delivery_id" format:"uuid" doc:"The delivery, which is due."`
	Created    bool   `json:"created" doc:"Whether the event had no delivery to the subscription before; false if its delivery is sent again or was already waiting."`
}

func (s *server) registerSubscriptionSend(api huma.API) {
	send := subscriptionOperation("send-event", http.MethodPost, "/{id}/send", "Send an event to a subscription", eventhook.ScopeManage)
	send.skipsShape, send.status, send.class = true, http.StatusAccepted, bulks
	send.about = "Sends one stored event to one subscription, again or for the first time, whatever the event types and the filter of the subscription. " +
		"An event has one delivery to a subscription: if it has ended, it is sent again with all its retries. " +
		"409 if the subscription is paused or disabled, if its scope_filter does not match the scope of the event, or if the event's data is past its retention."
	register(s, api, send, s.sendEvent)
}

type sendRequest struct {
	SubscriptionPath
	Body document[SubscriptionSend]
}

type sendAnswer struct {
	Location string `header:"Location"`
	Body     SubscriptionSent
}

var errPaused = &eventhook.Error{Kind: eventhook.KindConflict, Message: "The subscription is paused; resume it first."}

func (s *server) sendEvent(ctx context.Context, by caller, in *sendRequest) (*sendAnswer, error) {
	x, err := s.findSubscription(ctx, by, &in.SubscriptionPath)
	if err != nil {
		return nil, err
	}
	body, shape := in.Body.read(s)
	var ids, rules eventhook.Faults
	event := namedID[eventhook.Event](&ids, &rules, "body.event_id", body.EventID)
	if body.EventID == "" && len(shape) == 0 {
		rules.Add("body.event_id", "must not be empty")
	}
	switch err := unreadFirst(shape, ids, rules); {
	case err != nil:
		return nil, err
	case x.Status == eventhook.SubscriptionDisabled:
		return nil, errNotEnabled
	case x.Status == eventhook.SubscriptionPaused:
		return nil, errPaused
	}
	id, created, err := s.Sender.SendEvent(ctx, by.actor(), x, event)
	if err != nil {
		return nil, err
	}
	return &sendAnswer{pathTo(in.Tenant, "deliveries", id.String()), SubscriptionSent{id.String(), created}}, nil
}
