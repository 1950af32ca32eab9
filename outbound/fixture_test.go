package outbound_test

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/eventhook/eventhook"
)

var eventTime = time.Date(2026, 11, 22, 2, 44, 25, 123_000_000, time.UTC)

// newSubscription returns an active subscription to all events, with secrets.
func newSubscription(url string) *eventhook.Subscription {
	return &eventhook.Subscription{
		ID: eventhook.NewID[eventhook.Subscription](eventTime), Name: "billing", Status: eventhook.SubscriptionActive, EventTypes: []string{"*"},
		SubscriptionSecrets: eventhook.SubscriptionSecrets{
			URL: eventhook.NewSecret(url), AuthHeader: eventhook.NewSecret("Bearer t0p-s3cret"),
			Signing: []eventhook.SigningSecret{{Secret: eventhook.NewSecret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")}},
		},
	}
}

// sending is an attempt of a delivery to a subscription.
type sending struct {
	Delivery *eventhook.Delivery
	Attempt  int
	to       *eventhook.Subscription
}

// clientFunc implements send.Client without a network.
type clientFunc func() (status int)

func (f clientFunc) Exchange(context.Context, *http.Request, int) (int, http.Header, []byte, error) {
	return f(), http.Header{}, nil, nil
}

// answering returns a client that gets the same status for each request.
func answering(status int) clientFunc { return func() int { return status } }

// startTime is the time at which tests of publishing start.
var startTime = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// acme is a tenant.
var acme = eventhook.TenantID{0xac}

// subscriber returns an active subscription of the tenant acme to event types, separated by spaces.
func subscriber(name, types, filter string) eventhook.Subscription {
	return eventhook.Subscription{
		ID: eventhook.NewID[eventhook.Subscription](startTime), TenantID: acme, Name: name, Status: eventhook.SubscriptionActive,
		EventTypes: strings.Fields(types), Filter: []byte(filter),
	}
}

// news returns an event that the tenant acme publishes.
func news(eventType, data string) *eventhook.Event {
	return &eventhook.Event{ID: eventhook.NewID[eventhook.Event](startTime), TenantID: acme, EventType: eventType, ContentType: "application/json",
		Payload: eventhook.Payload{Body: []byte(data)}}
}
