package api

import (
	"context"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/eventhook/eventhook"
)

// deliveryRequest is the request of a delivery as its subscriber gets it.
type deliveryRequest struct {
	Method     string            `json:"method" example:"POST"`
	Headers    map[string]string `json:"headers" doc:"Headers of the request, without its signatures and credentials."`
	BodyBase64 []byte            `json:"body_base64" doc:"Body of the request in base64. The auth_header is redacted in it."`
	BodySize   int               `json:"body_size" example:"1229" doc:"Size of the whole body in bytes."`
}

type deliveryRequestRequest struct {
	DeliveryPath
	MaxBytes int `query:"max_bytes" minimum:"1" maximum:"33554432" default:"33554432" doc:"Return at most this many bytes of the body: the first ones of a larger body."`
}

type deliveryRequestAnswer struct{ Body deliveryRequest }

func (s *server) registerDeliveryRequest(api huma.API) {
	register(s, api, operation{id: "get-delivery-request", method: http.MethodGet, path: base + "/deliveries/{id}/request", scope: eventhook.ScopeRead,
		tag: "deliveries", class: trials, summary: "Get the request of a delivery to a subscription",
		about: "Returns the request that the subscriber gets, composed with the current settings of the subscription, without its signatures and credentials, for development with eventhook listen. Sends nothing. " +
			"409 if the delivery is not to a subscription that exists, or if the data of its event is past the retention period."}, s.getDeliveryRequest)
}

var errNoSubscription = &eventhook.Error{Kind: eventhook.KindConflict, Message: "The delivery is not to a subscription, or its subscription is deleted."}

func (s *server) getDeliveryRequest(ctx context.Context, by caller,
	in *deliveryRequestRequest) (*deliveryRequestAnswer, error) {
	id, err := eventhook.ParseID[eventhook.Delivery](in.ID)
	if err != nil {
		return nil, err
	}
	d, err := s.Deliveries.DeliveryToSend(ctx, by.tenant, id)
	if err == nil {
		err = s.checkDelivery(ctx, by, d)
	}
	switch {
	case err != nil:
		return nil, err
	case d.IsOfRoute():
		return nil, errNoSubscription
	case d.Event == nil:
		return nil, errNoBody
	}
	by.reservation.addUnchecked(int64(len(d.Event.Body)) * shownWeight)
	x, err := s.Subscriptions.Subscription(ctx, by.tenant, d.SubscriptionID)
	switch {
	case eventhook.KindOf(err) == eventhook.KindNotFound:
		return nil, errNoSubscription
	case err != nil:
		return nil, err
	case x.SecretsLost:
		return nil, errLost
	}
	header, body, err := s.Receivers.Tester.Preview(ctx, x, d)
	if err != nil {
		return nil, err
	}
	out := deliveryRequest{Method: http.MethodPost, Headers: map[string]string{},
		BodyBase64: body[:min(len(body), in.MaxBytes)], BodySize: len(body)}
	for name, values := range header {
		out.Headers[name] = strings.Join(values, ", ")
	}
	return &deliveryRequestAnswer{out}, nil
}
