package outbound_test

import (
	"context"
	"testing"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/outbound"
	"github.com/eventhook/eventhook/outbound/send"
)

var (
	_ outbound.Directory              = outbound.Directories{}
	_ outbound.SubscriptionTransports = outbound.SubscriptionDirectory{}
)

// While the database cannot be read, the last known state of a subscription is used.
func TestDestinationUsesTheLastKnownSubscriptionDuringAnOutage(t *testing.T) {
	known, unknown := *newSubscription("https://hooks.example/"), *newSubscription("https://hooks.example/")
	unknown.ID = eventhook.NewID[eventhook.Subscription](time.Now())
	o := newFakeStore(known, unknown)
	subscriptionCache := o.subscriptionCache()
	d := outbound.SubscriptionDirectory{Subscriptions: subscriptionCache, Sender: send.NewHTTPSender(send.Deps{Client: answering(200), Now: time.Now})}
	of := eventhook.Destination{TenantID: known.TenantID, SubscriptionID: known.ID}
	before, err := d.Destination(t.Context(), of)
	if err != nil || before.ID != of.ID() || !before.Ready || before.Transport == nil {
		t.Fatalf("got %+v, %v; want the subscription", before, err)
	}
	o.set(func() { o.err = errStore })
	subscriptionCache.InvalidateAll()
	if got, err := d.Destination(t.Context(), of); err != nil || got.Transport != before.Transport {
		t.Errorf("got %+v, %v; want the previous state", got, err)
	}
	of.SubscriptionID = unknown.ID
	if got, err := d.Destination(t.Context(), of); err == nil {
		t.Errorf("unknown subscription during the outage: got %+v, want an error", got)
	}
	o.set(func() { o.err = nil })
	of.SubscriptionID = eventhook.NewID[eventhook.Subscription](time.Now())
	if _, err := d.Destination(t.Context(), of); eventhook.KindOf(err) != eventhook.KindNotFound {
		t.Errorf("missing subscription: got %v, want KindNotFound", err)
	}
}

func TestDirectoriesSelectsByTheKindOfDestination(t *testing.T) {
	var asked []string
	note := func(name string) outbound.Directory {
		return directoryFunc(func(eventhook.Destination) { asked = append(asked, name) })
	}
	d := outbound.Directories{Subscriptions: note("subscriptions"), Routes: note("routes")}
	for _, of := range []eventhook.Destination{
		{SubscriptionID: eventhook.NewID[eventhook.Subscription](time.Now())},
		{RouteID: eventhook.NewID[eventhook.Route](time.Now()), TargetIndex: 1},
	} {
		if _, err := d.Destination(t.Context(), of); err != nil {
			t.Error(err)
		}
	}
	if len(asked) != 2 || asked[0] != "subscriptions" || asked[1] != "routes" {
		t.Errorf("got the lookups %v, want one of a subscription and one of a route", asked)
	}
}

type directoryFunc func(of eventhook.Destination)

func (f directoryFunc) Destination(_ context.Context, of eventhook.Destination) (to outbound.Destination, _ error) {
	f(of)
	return to, nil
}
