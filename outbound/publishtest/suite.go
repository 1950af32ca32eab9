// Package publishtest holds the conformance suite of outbound.PublishStore. The fake
// of package outbound's tests and package pg's store pass it.
package publishtest

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/outbound"
)

// Store is a store to check, with an empty database around it.
type Store struct {
	outbound.PublishStore
	Tenant        eventhook.TenantID
	Other         eventhook.TenantID         // another tenant
	Subscriptions []eventhook.SubscriptionID // two, of Tenant
	Rejected      string                     // an event type that the store rejects
	Now           func() time.Time
	Generation    func(of eventhook.TenantID) int64
	Change        func()                         // changes a subscription of Tenant
	Deliveries    func(of eventhook.EventID) int // number of stored deliveries; -1 if the event is not stored
}

// Check checks the contract of outbound.PublishStore. It calls open for each case, which must return an
// empty store.
func Check(t *testing.T, open func(*testing.T) Store) {
	for _, c := range []struct {
		claim string
		check func(suite)
	}{
		{"an event is stored with its deliveries", suite.stores},
		{"a key is stored once, in a batch and across batches", suite.storesAKeyOnce},
		{"tenants may use the same key", suite.keepsKeysApart},
		{"nothing of a stale event is stored, not even its key", suite.leavesOutStale},
		{"a rejected event does not affect the other events of its batch", suite.leavesOutRefused},
		{"a call that is cancelled stores nothing", suite.storesNothingWhenCancelled},
	} {
		t.Run(c.claim, func(t *testing.T) { c.check(suite{t, open(t)}) })
	}
}

type suite struct {
	*testing.T
	Store
}

// event returns an event of Tenant with a delivery to each of the first
// subscriptions, matched now.
func (s suite) event(key string, subscriptions int) *outbound.PublishItem {
	e := &eventhook.Event{
		ID: eventhook.NewID[eventhook.Event](s.Now()), TenantID: s.Tenant, Origin: eventhook.OriginAPI, EventType: "order.made", IdempotencyKey: key,
		ContentType: "application/json", BodySize: 1, Envelope: &eventhook.Envelope{},
		Payload: eventhook.Payload{Headers: []byte("Content-Type: application/json"), Body: []byte("1")},
	}
	p := &outbound.PublishItem{Event: e, Generation: s.Generation(s.Tenant)}
	for _, id := range s.Subscriptions[:subscriptions] {
		p.Deliveries = append(p.Deliveries, &eventhook.Delivery{ID: eventhook.DeliveryIDOf(e.ID, eventhook.DestinationID(id)), TenantID: s.Tenant, SubscriptionID: id,
			EventID: e.ID, EventType: e.EventType, Status: eventhook.DeliveryPending})
	}
	return p
}

func (s suite) publish(batch ...*outbound.PublishItem) {
	s.Helper()
	if err := s.Publish(s.Context(), batch); err != nil {
		s.Fatalf("Publish: %v", err)
	}
}

// outcome is the state of an event after Publish.
type outcome struct {
	Status      eventhook.EventStatus
	DuplicateOf eventhook.EventID
	Count       int
	IsStale     bool
	Stored      int // stored deliveries; -1: the event is not stored
}

func (s suite) want(claim string, p *outbound.PublishItem, want outcome) {
	s.Helper()
	got := outcome{p.Event.Status, p.Event.DuplicateOf, 0, p.IsStale, s.Deliveries(p.Event.ID)}
	if got.Status == eventhook.EventDuplicate || got.Status == eventhook.EventDelivered {
		got.Count = p.Count
	}
	if diff := cmp.Diff(want, got); diff != "" {
		s.Errorf("%s (-want +got):\n%s", claim, diff)
	}
}

func stored(deliveries int) outcome {
	return outcome{Status: eventhook.EventDelivered, Count: deliveries, Stored: deliveries}
}

func duplicate(of *outbound.PublishItem) outcome {
	return outcome{Status: eventhook.EventDuplicate, DuplicateOf: of.Event.ID, Count: len(of.Deliveries), Stored: -1}
}

var nothing = outcome{Stored: -1}

func (s suite) stores() {
	const lease = 30 * time.Second
	two, zero := s.event("", 2), s.event("", 0)
	two.Deliveries[0].Status, two.Deliveries[0].Lease = eventhook.DeliveryAcquired, eventhook.Lease{Token: 1, Until: s.Now().Add(lease)}
	s.publish(two, zero)
	s.want("with two deliveries", two, stored(2))
	s.want("without deliveries", zero, stored(0))
	for i, want := range []eventhook.DeliveryStatus{eventhook.DeliveryAcquired, eventhook.DeliveryPending} {
		if d := two.Deliveries[i]; d.Status != want || (d.Lease.Token == 1) != (want == eventhook.DeliveryAcquired) {
			s.Errorf("delivery %d: got %s with the token %d, want %s", i, d.Status, d.Lease.Token, want)
		}
	}
}

func (s suite) storesAKeyOnce() {
	first, same, other := s.event("k", 2), s.event("k", 1), s.event("l", 1)
	s.publish(first, same, other)
	s.want("first event", first, stored(2))
	s.want("same key in the batch", same, duplicate(first))
	s.want("another key", other, stored(1))
	later := s.event("l", 2)
	s.publish(later)
	s.want("same key in a later batch", later, duplicate(other))
}

func (s suite) keepsKeysApart() {
	own, other := s.event("k", 1), s.event("k", 0)
	other.Event.TenantID, other.Generation = s.Other, s.Generation(s.Other)
	s.publish(own, other)
	s.want("event of the tenant", own, stored(1))
	s.want("event of the other tenant", other, stored(0))
}

func (s suite) leavesOutStale() {
	before := s.event("k", 2)
	s.Change()
	after := s.event("k", 1)
	s.publish(before, after)
	s.want("matched before the change", before, outcome{IsStale: true, Stored: -1})
	s.want("matched after it", after, stored(1))
	before.Generation = s.Generation(s.Tenant)
	s.publish(before)
	s.want("matched again", before, duplicate(after))
}

func (s suite) leavesOutRefused() {
	first, rejected, last := s.event("a", 1), s.event("b", 1), s.event("", 1)
	rejected.Event.EventType = s.Rejected
	s.publish(first, rejected, last)
	s.want("event before the rejected one", first, stored(1))
	s.want("rejected event", rejected, nothing)
	s.want("event after the rejected one", last, stored(1))
	again := s.event("b", 1)
	s.publish(again)
	s.want("new event with the key of the rejected one", again, stored(1))
}

func (s suite) storesNothingWhenCancelled() {
	ctx, cancel := context.WithCancel(s.Context())
	cancel()
	p := s.event("k", 1)
	if err := s.Publish(ctx, []*outbound.PublishItem{p}); err == nil {
		s.Error("Publish: got no error")
	}
	if n := s.Deliveries(p.Event.ID); n != -1 {
		s.Errorf("got the event stored with %d deliveries, want nothing", n)
	}
}
