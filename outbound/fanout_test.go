package outbound_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/effects"
	"github.com/eventhook/eventhook/internal/meter"
	"github.com/eventhook/eventhook/outbound"
)

func newFanout(o *fakeStore) *outbound.Fanout {
	return &outbound.Fanout{Subscriptions: o.subscriptionCache(), Targets: o, CPULimiter: newShares(), Dispatcher: o, Store: o, Log: o.log}
}

// publishing returns the settlement of an event of the tenant acme that publishes events of some
// types, separated by spaces.
func publishing(types string) *effects.Settlement {
	e := news("received", `{"raw":true}`)
	e.SourceSlug, e.TraceID, e.RequestID, e.Lease.Token = "shop", strings.Repeat("ab", 16), "r1", 1
	s := &effects.Settlement{Event: e, Matched: 1}
	for i, eventType := range strings.Fields(types) {
		p := &effects.Publication{ID: eventhook.NewID[eventhook.Event](startTime), EventType: eventType, Data: []byte(`{"n":1}`)}
		s.Actions = append(s.Actions, effects.PlannedAction{Action: eventhook.Action{TargetIndex: i}, Effect: effects.Effect{Publication: p}})
	}
	return s
}

// match plans the deliveries of events with the current subscriptions.
func match(t *testing.T, f *outbound.Fanout, batch ...*effects.Settlement) {
	t.Helper()
	for _, s := range batch {
		matchWithin(t, f, nil, s)
	}
}

func matchWithin(t *testing.T, f *outbound.Fanout, m *meter.Meter, s *effects.Settlement) {
	t.Helper()
	o := f.Store.(*fakeStore)
	o.set(func() { s.Generation = o.generation[s.Event.TenantID] })
	if err := f.Match(t.Context(), m, s); err != nil {
		t.Fatalf("Match: %v", err)
	}
}

// store settles planned events.
func store(t *testing.T, f *outbound.Fanout, batch ...*effects.Settlement) (unsettled []*effects.Settlement) {
	t.Helper()
	unsettled, err := f.SettleEvents(t.Context(), batch)
	if err != nil {
		t.Fatalf("SettleEvents: %v", err)
	}
	return unsettled
}

func settle(t *testing.T, f *outbound.Fanout, batch ...*effects.Settlement) (unsettled []*effects.Settlement) {
	t.Helper()
	match(t, f, batch...)
	return store(t, f, batch...)
}

func TestAPublishedEventOfARouteHasItsDeliveries(t *testing.T) {
	paused := subscriber("paused", "paid", "")
	paused.Status = eventhook.SubscriptionPaused
	o := newFakeStore(subscriber("a", "paid", `{"body.n":1,"event.source":"shop","event.origin":"route"}`), subscriber("b", "shipped", ""), subscriber("none", "received", ""), paused)
	defer o.check(t)
	s := publishing("paid shipped")
	s.Actions = append(s.Actions, effects.PlannedAction{Effect: effects.Effect{Execution: &eventhook.Execution{}}})
	if lost := settle(t, newFanout(o), s); len(lost) > 0 {
		t.Errorf("lost: got %d, want 0", len(lost))
	}
	for name, want := range map[string][2]int{"a": {1, 1}, "b": {1, 1}, "none": {0, 0}, "paused": {1, 0}} {
		if stored, leased := o.storedFor(name); [2]int{stored, leased} != want {
			t.Errorf("%s: got %d stored, %d leased; want %v", name, stored, leased, want)
		}
	}
	if len(o.enqueued) != 2 || o.notified != 0 {
		t.Fatalf("got %d enqueued, NotifyDue called %d times; want 2 and 0", len(o.enqueued), o.notified)
	}
	p := s.Actions[0].Effect.Publication
	want := &eventhook.Event{
		ID: p.ID, TenantID: acme, SourceSlug: "shop", Origin: eventhook.OriginRoute, Status: eventhook.EventDelivered, EventType: "paid", ContentType: "application/json",
		BodySize: 7, TraceID: strings.Repeat("ab", 16), RequestID: "r1", CorrelationID: s.Event.ID.String(), Envelope: &eventhook.Envelope{Source: "shop"}, Payload: eventhook.Payload{Body: p.Data},
	}
	if diff := cmp.Diff(want, o.enqueued[0].Event); diff != "" {
		t.Errorf("sent event (-want +got):\n%s", diff)
	}
	if p.Envelope != o.enqueued[0].Event.Envelope {
		t.Errorf("stored with the envelope %+v, want the envelope of the sent event", p.Envelope)
	}
}

func TestAPublishedEventInheritsItsCorrelation(t *testing.T) {
	o := newFakeStore(subscriber("a", "*", ""))
	defer o.check(t)
	s := publishing("paid")
	s.Event.CorrelationID = "c1"
	settle(t, newFanout(o), s)
	if got := o.enqueued[0].Event.CorrelationID; got != "c1" {
		t.Errorf("got %q, want c1", got)
	}
}

func TestDeliveriesThatAreNotStoredAreNotEnqueued(t *testing.T) {
	for _, c := range []struct {
		claim    string
		change   func(*fakeStore, *effects.Settlement)
		enqueued int
	}{
		{"what is", func(*fakeStore, *effects.Settlement) {}, 2},
		{"a lost lease", func(_ *fakeStore, s *effects.Settlement) { s.Event.Lease.Token = 0 }, 0},
		{"a repeated key", func(o *fakeStore, s *effects.Settlement) {
			s.Actions[0].Effect.Publication.IdempotencyKey, o.keys[keyIn(acme, "k")] = "k", eventhook.EventID{1}
		}, 1},
		{"a key of two events", func(_ *fakeStore, s *effects.Settlement) {
			s.Actions[0].Effect.Publication.IdempotencyKey, s.Actions[1].Effect.Publication.IdempotencyKey = "k", "k"
		}, 1},
		{"a failed action", func(_ *fakeStore, s *effects.Settlement) { s.Actions[1].Failure = "no" }, 1},
		{"an event that the store rejects", func(o *fakeStore, s *effects.Settlement) { o.outcome[s.Event.ID] = "plan refused" }, 0},
	} {
		t.Run(c.claim, func(t *testing.T) {
			o := newFakeStore(subscriber("a", "*", ""))
			defer o.check(t)
			s := publishing("paid paid")
			c.change(o, s)
			settle(t, newFanout(o), s)
			if len(o.enqueued) != c.enqueued || len(o.deliveries) != c.enqueued {
				t.Errorf("got %d enqueued of %d stored, want %d", len(o.enqueued), len(o.deliveries), c.enqueued)
			}
			for _, a := range s.Actions {
				if a.Failure == "no" && a.Effect.Publication.Deliveries != nil {
					t.Error("a failed action has deliveries, want none")
				}
			}
		})
	}
}

// If the answer of a settlement is lost, the settlement is repeated. No subscriber gets an
// event twice.
func TestARepeatedSettleCreatesTheSameDeliveries(t *testing.T) {
	o := newFakeStore(subscriber("a", "*", ""), subscriber("b", "*", ""))
	f := newFanout(o)
	s := publishing("paid paid")
	match(t, f, s)
	o.lostAnswer = errStore
	if _, err := f.SettleEvents(t.Context(), []*effects.Settlement{s}); !errors.Is(err, errStore) {
		t.Fatalf("got %v, want the error of the store", err)
	}
	if len(o.enqueued) != 0 || len(o.deliveries) != 4 {
		t.Fatalf("got %d enqueued of %d stored, want 0 of 4", len(o.enqueued), len(o.deliveries))
	}
	o.set(func() { o.lostAnswer = nil })
	unsettled, err := f.SettleEvents(t.Context(), []*effects.Settlement{s})
	if len(unsettled) != 1 || err != nil || len(o.deliveries) != 4 {
		t.Errorf("got %d unsettled, %v and %d deliveries; want 1 unsettled, because it was settled before, and the same 4 deliveries", len(unsettled), err, len(o.deliveries))
	}
	for id, n := range o.reserved {
		if n != 0 {
			t.Errorf("subscription %s: %d reservations are lost", id, n)
		}
	}
}

func TestAFailedSettleReleasesItsReservations(t *testing.T) {
	o := newFakeStore(subscriber("a", "*", ""))
	defer o.check(t)
	f := newFanout(o)
	settle(t, f, publishing("paid"))
	s := publishing("paid")
	match(t, f, s)
	o.err = errStore
	if _, err := f.SettleEvents(t.Context(), []*effects.Settlement{s}); !errors.Is(err, errStore) {
		t.Errorf("got %v, want the error of the store", err)
	}
}

func TestManyDeliveriesUseSeveralTransactions(t *testing.T) {
	var list []eventhook.Subscription
	for i := range 900 {
		list = append(list, subscriber(fmt.Sprint(i), "many", ""))
	}
	o := newFakeStore(list...)
	defer o.check(t)
	batch := []*effects.Settlement{publishing("many"), publishing("few few"), publishing("many"), publishing("many many many"), publishing("few"), publishing("many"), publishing("")}
	lost := batch[4]
	lost.Event.Lease.Token = 0
	if got := settle(t, newFanout(o), batch...); len(got) != 1 || got[0] != lost {
		t.Errorf("lost: got %v, want 1", got)
	}
	want := [][]string{{"many", "few", "few", "many"}, {"many", "many", "many"}, {"many"}}
	if diff := cmp.Diff(want, o.commits); diff != "" {
		t.Errorf("commits (-want +got):\n%s", diff)
	}
	if len(o.enqueued) != 6*900 {
		t.Errorf("enqueued %d, want %d", len(o.enqueued), 6*900)
	}
}

func TestTheDeliveriesOfOneEventAreBounded(t *testing.T) {
	var list []eventhook.Subscription
	for range 1100 {
		list = append(list, subscriber("s", "many", ""))
	}
	o := newFakeStore(list...)
	defer o.check(t)
	s := publishing(strings.Repeat("many ", 92) + "few")
	settle(t, newFanout(o), s)
	failed := 0
	for i, a := range s.Actions {
		if a.Status == eventhook.ActionFailed {
			failed++
			if want := fmt.Sprintf("target %d: not published", i+1); !a.Permanent || !strings.HasPrefix(a.Failure, want) || a.Effect.Publication != nil {
				t.Errorf("got %+v, want the permanent failure %q", a, want)
			}
		}
	}
	if failed != 2 || s.Actions[92].Status != eventhook.ActionSuccess {
		t.Errorf("got %d failed, and %s for the last action; want 2 and success", failed, s.Actions[92].Status)
	}
}
