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

// sending is an attempt at a subscription.
type sending struct {
	Delivery *eventhook.Delivery
	Attempt  int
	to       *eventhook.Subscription
}

// clientFunc is a Client without a network.
type clientFunc func() (status int)

func (f clientFunc) Exchange(context.Context, *http.Request, int) (int, http.Header, []byte, error) {
	return f(), http.Header{}, nil, nil
}

// answering is a Client that gets the same status each time.
func answering(status int) clientFunc { return func() int { return status } }

// march is when tests of publishing begin.
var march = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// acme is a tenant.
var acme = eventhook.TenantID{0xac}

// subscriber is an active subscription of acme's to types, separated by spaces.
func subscriber(name, types, filter string) eventhook.Subscription {
	return eventhook.Subscription{
		ID: eventhook.NewID[eventhook.Subscription](march), TenantID: acme, Name: name, Status: eventhook.SubscriptionActive,
		EventTypes: strings.Fields(types), Filter: []byte(filter),
	}
}

// news is an event that acme publishes.
func news(eventType, data string) *eventhook.Event {
	return &eventhook.Event{ID: eventhook.NewID[eventhook.Event](march), TenantID: acme, EventType: eventType, ContentType: "application/json",
		Payload: eventhook.Payload{Body: []byte(data)}}
}
