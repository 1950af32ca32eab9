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

// While the database cannot be read, a subscription is sent to as it was known.
func TestASubscriptionThatCannotBeReadIsTakenFromItsLastSend(t *testing.T) {
	known, unknown := *newSubscription("https://hooks.example/"), *newSubscription("https://hooks.example/")
	unknown.ID = eventhook.NewID[eventhook.Subscription](time.Now())
	o := newFakeStore(known, unknown)
	rosters := o.rosters()
	d := outbound.SubscriptionDirectory{Subscriptions: rosters, Sender: send.NewHTTPSender(answering(200), "", time.Now)}
	of := eventhook.Destination{TenantID: known.TenantID, SubscriptionID: known.ID}
	before, err := d.Destination(t.Context(), of)
	if err != nil || before.ID != of.ID() || !before.Ready || before.Transport == nil {
		t.Fatalf("got %+v, %v; want the subscription", before, err)
	}
	o.set(func() { o.err = errOffice })
	rosters.InvalidateAll()
	if got, err := d.Destination(t.Context(), of); err != nil || got.Transport != before.Transport {
		t.Errorf("got %+v, %v; want it as it was before", got, err)
	}
	of.SubscriptionID = unknown.ID
	if got, err := d.Destination(t.Context(), of); err == nil {
		t.Errorf("one that was never sent to: got %+v, want an error", got)
	}
	o.set(func() { o.err = nil })
	of.SubscriptionID = eventhook.NewID[eventhook.Subscription](time.Now())
	if _, err := d.Destination(t.Context(), of); eventhook.KindOf(err) != eventhook.KindNotFound {
		t.Errorf("one that does not exist: got %v, want KindNotFound", err)
	}
}

// A subscription and a target of a route are looked up where each is configured.
func TestDirectoriesChoosesTheDirectoryByKindOfDestination(t *testing.T) {
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
		t.Errorf("asked %v, want subscriptions and then routes", asked)
	}
}

type directoryFunc func(of eventhook.Destination)

func (f directoryFunc) Destination(_ context.Context, of eventhook.Destination) (to outbound.Destination, _ error) {
	f(of)
	return to, nil
}
