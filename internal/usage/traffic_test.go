package usage_test

import (
	"errors"
	"testing"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/effects"
	"github.com/eventhook/eventhook/outbound"
)

const minute, ten = eventhook.TrafficMinute, eventhook.TrafficMinutes

func TestTrafficIsCountedByMinuteForTheSourceAndItsTenant(t *testing.T) {
	r := newFixture(t)
	s := newSource(eventhook.Quota{})
	a, tenant := r.open(r.meter, s), eventhook.TrafficOf{TenantID: s.TenantID}
	source := eventhook.TrafficOf{TenantID: s.TenantID, SourceID: s.ID}
	r.take(a, 3, 10)
	a.Duplicate()
	a.Refused()
	r.meter.Settled([]*effects.Settlement{
		{Event: &eventhook.Event{TenantID: s.TenantID, SourceID: s.ID}, Status: eventhook.EventDelivered},
		{Event: &eventhook.Event{TenantID: s.TenantID, SourceID: s.ID}, Status: eventhook.EventUnrouted},
		{Event: &eventhook.Event{TenantID: s.TenantID, SourceID: s.ID}, Status: eventhook.EventDead},
		{Event: &eventhook.Event{TenantID: s.TenantID, SourceID: s.ID}, Status: eventhook.EventFailed},
		{Event: &eventhook.Event{TenantID: s.TenantID, SourceID: s.ID}, Status: eventhook.EventProcessing},
	})
	r.must(r.meter.FlushTraffic(t.Context()))
	r.clock.Advance(time.Minute)
	r.take(a, 2, 10)
	a.Return(10, r.clock.Now())
	r.must(r.meter.FlushTraffic(t.Context()))
	first := eventhook.Traffic{Received: 3, Refused: 1, Duplicates: 1, Succeeded: 2, Failed: 1}
	second, both := eventhook.Traffic{Received: 1}, first
	both.Add(second)
	for _, of := range []eventhook.TrafficOf{tenant, source} {
		same(t, "minutes", r.store.Traffic(of, minute), map[time.Time]eventhook.Traffic{noon: first, noon.Add(time.Minute): second})
		same(t, "ten minutes", r.store.Traffic(of, ten), map[time.Time]eventhook.Traffic{noon: both})
	}
}

func TestTrafficOfPublishersIsCountedForTheTenant(t *testing.T) {
	r := newFixture(t)
	id := eventhook.NewID[eventhook.Tenant](noon)
	a, err := r.meter.OpenTenant(t.Context(), eventhook.Tenant{ID: id})
	r.must(err)
	r.take(a, 2, 10)
	r.must(r.meter.FlushTraffic(t.Context()))
	same(t, "minutes", r.store.Traffic(eventhook.TrafficOf{TenantID: id}, minute), map[time.Time]eventhook.Traffic{noon: {Received: 2}})
}

func TestTrafficThatWasNotWrittenKeepsItsMinute(t *testing.T) {
	r := newFixture(t)
	s := newSource(eventhook.Quota{})
	a, source := r.open(r.meter, s), eventhook.TrafficOf{TenantID: s.TenantID, SourceID: s.ID}
	r.take(a, 3, 10)
	r.store.FailWrites(errDown)
	for range 2 {
		if err := r.meter.FlushTraffic(t.Context()); !errors.Is(err, errDown) {
			t.Errorf("got %v, want %v", err, errDown)
		}
		r.clock.Advance(time.Minute)
	}
	r.take(a, 1, 10)
	r.store.FailWrites(nil)
	r.must(r.meter.FlushTraffic(t.Context()))
	same(t, "minutes", r.store.Traffic(source, minute),
		map[time.Time]eventhook.Traffic{noon: {Received: 3}, noon.Add(2 * time.Minute): {Received: 1}})
	writes, _ := r.store.Calls()
	r.must(r.meter.FlushTraffic(t.Context()))
	again, _ := r.store.Calls()
	same(t, "writes without traffic", again-writes, 0)
}

func TestTrafficThatCouldNotBeWrittenForADayIsDropped(t *testing.T) {
	r := newFixture(t)
	r.take(r.open(r.meter, newSource(eventhook.Quota{})), 1, 10)
	r.store.FailWrites(errDown)
	_ = r.meter.FlushTraffic(t.Context())
	r.clock.Advance(eventhook.TrafficRetention)
	_ = r.meter.FlushTraffic(t.Context())
	writes, _ := r.store.Calls()
	r.store.FailWrites(nil)
	r.must(r.meter.FlushTraffic(t.Context()))
	again, _ := r.store.Calls()
	same(t, "writes", again-writes, 0)
}

func TestDeliveriesAreCountedWithTheirLatency(t *testing.T) {
	r := newFixture(t)
	tenant, subscription := eventhook.NewID[eventhook.Tenant](noon), eventhook.NewID[eventhook.Subscription](noon)
	settled := func(status eventhook.DeliveryStatus, class eventhook.ErrorClass, change func(*eventhook.Delivery)) *outbound.DeliverySettlement {
		d := &eventhook.Delivery{TenantID: tenant, SubscriptionID: subscription, EventID: eventhook.NewID[eventhook.Event](noon)}
		change(d)
		return &outbound.DeliverySettlement{Delivery: d, Status: status,
			Attempt: &eventhook.Attempt{StartedAt: noon.Add(20 * time.Millisecond), Duration: 12 * time.Millisecond, ErrorClass: class}}
	}
	plain := func(*eventhook.Delivery) {}
	test := settled(eventhook.DeliverySuccess, "", plain)
	test.IsUncounted = true
	unsent := settled(eventhook.DeliveryDead, "", plain)
	unsent.Attempt = nil
	r.meter.Delivered([]*outbound.DeliverySettlement{
		settled(eventhook.DeliverySuccess, "", plain), test, unsent,
		settled(eventhook.DeliverySuccess, "", func(d *eventhook.Delivery) { d.RestartedAt = &noon }),
		settled(eventhook.DeliverySuccess, "", func(d *eventhook.Delivery) { d.IsReleased = true }),
		settled(eventhook.DeliveryFailed, eventhook.ErrorTimeout, plain), settled(eventhook.DeliveryDead, eventhook.ErrorHTTP5xx, plain),
	})
	r.must(r.meter.FlushTraffic(t.Context()))
	want := eventhook.Traffic{Sent: 3, FailedAttempts: 2, Dead: 2}
	want.Latency.Observe(32 * time.Millisecond)
	for _, of := range []eventhook.TrafficOf{{TenantID: tenant}, {TenantID: tenant, SubscriptionID: subscription}} {
		same(t, "minutes", r.store.Traffic(of, minute), map[time.Time]eventhook.Traffic{noon: want})
	}
}

func TestAnEventThatEndsWithADeliveryCountsForItsSource(t *testing.T) {
	r := newFixture(t)
	e := &eventhook.Event{ID: eventhook.NewID[eventhook.Event](noon), TenantID: eventhook.NewID[eventhook.Tenant](noon),
		SourceID: eventhook.NewID[eventhook.Source](noon)}
	r.meter.Delivered([]*outbound.DeliverySettlement{{Status: eventhook.DeliverySuccess, EventStatus: eventhook.EventDelivered,
		Delivery: &eventhook.Delivery{TenantID: e.TenantID, RouteID: eventhook.NewID[eventhook.Route](noon), Event: e, EventID: e.ID}}})
	r.must(r.meter.FlushTraffic(t.Context()))
	same(t, "minutes", r.store.Traffic(eventhook.TrafficOf{TenantID: e.TenantID, SourceID: e.SourceID}, minute),
		map[time.Time]eventhook.Traffic{noon: {Succeeded: 1}})
}
