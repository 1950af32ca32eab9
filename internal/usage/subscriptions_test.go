package usage_test

import (
	"errors"
	"testing"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/outbound"
)

func TestAttemptsAreCountedForTheirSubscription(t *testing.T) {
	r := newFixture(t)
	id, other := eventhook.NewID[eventhook.Subscription](noon), eventhook.NewID[eventhook.Subscription](noon)
	settled := func(of eventhook.SubscriptionID, status eventhook.DeliveryStatus, class eventhook.ErrorClass) *outbound.DeliverySettlement {
		return &outbound.DeliverySettlement{Delivery: &eventhook.Delivery{SubscriptionID: of}, Status: status,
			Attempt: &eventhook.Attempt{Duration: 10 * time.Millisecond, ErrorClass: class}}
	}
	unsent := settled(id, eventhook.DeliveryDead, "")
	unsent.Attempt = nil
	test := settled(id, eventhook.DeliverySuccess, "")
	test.IsUncounted = true
	batch := []*outbound.DeliverySettlement{
		settled(id, eventhook.DeliverySuccess, ""), settled(id, eventhook.DeliverySuccess, ""),
		settled(id, eventhook.DeliveryFailed, eventhook.ErrorTimeout), settled(id, eventhook.DeliveryDead, eventhook.ErrorHTTP5xx),
		unsent, test, settled(other, eventhook.DeliverySuccess, ""),
	}
	r.meter.Delivered(batch)
	r.clock.Advance(eventhook.SourceCountSpan)
	r.meter.Delivered(batch[:1])
	r.store.FailWrites(errDown)
	if err := r.meter.FlushSubscriptions(t.Context()); !errors.Is(err, errDown) {
		t.Errorf("got %v, want %v", err, errDown)
	}
	r.store.FailWrites(nil)
	r.meter.Delivered(batch[:1])
	r.must(r.meter.FlushSubscriptions(t.Context()))
	then := noon.Add(eventhook.SourceCountSpan)
	same(t, "counts after a failed write", r.store.SubscriptionCounts(id), map[time.Time]eventhook.SubscriptionCount{
		noon: {SubscriptionID: id, At: noon, Delivered: 2, Failed: 2, Dead: 2, Duration: 40 * time.Millisecond},
		then: {SubscriptionID: id, At: then, Delivered: 2, Duration: 20 * time.Millisecond},
	})
	same(t, "another subscription's", r.store.SubscriptionCounts(other)[noon].Delivered, int64(1))
	writes, _ := r.store.Calls()
	r.must(r.meter.FlushSubscriptions(t.Context()))
	again, _ := r.store.Calls()
	same(t, "writes without counts", again-writes, 0)
}

// An event with several targets counts as failed once, and its retries do not count.
func TestDeliveriesOfRoutesAreCountedForTheirSource(t *testing.T) {
	r := newFixture(t)
	source := eventhook.NewID[eventhook.Source](noon)
	event := func() *eventhook.Event {
		return &eventhook.Event{ID: eventhook.NewID[eventhook.Event](noon), SourceID: source}
	}
	settled := func(e *eventhook.Event, retries int, status eventhook.DeliveryStatus) *outbound.DeliverySettlement {
		return &outbound.DeliverySettlement{Status: status, Attempt: &eventhook.Attempt{ErrorClass: eventhook.ErrorTimeout},
			Delivery: &eventhook.Delivery{RouteID: eventhook.NewID[eventhook.Route](noon), RetryCount: retries, Event: e}}
	}
	one, two := event(), event()
	r.meter.Delivered([]*outbound.DeliverySettlement{
		settled(one, 0, eventhook.DeliveryFailed), settled(one, 0, eventhook.DeliveryDead), settled(two, 0, eventhook.DeliverySuccess),
		settled(event(), 0, eventhook.DeliveryDead), settled(two, 1, eventhook.DeliveryDead),
	})
	r.must(r.meter.FlushSources(t.Context()))
	r.must(r.meter.FlushSubscriptions(t.Context()))
	same(t, "failed", r.store.SourceTotals()[source].Failed, int64(2))
	same(t, "subscriptions", len(r.store.SubscriptionCounts(eventhook.SubscriptionID{})), 0)
}
