package outbound_test

import (
	"errors"
	"testing"

	"pgregory.net/rapid"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/effects"
)

// requesting adds a request to an http target of a route to a plan.
func requesting(s *effects.Settlement) *effects.Settlement {
	of := eventhook.Destination{TenantID: acme, RouteID: eventhook.RouteID{1}, TargetIndex: len(s.Actions)}
	to := of.ID()
	s.Actions = append(s.Actions, effects.PlannedAction{Action: eventhook.Action{TargetIndex: of.TargetIndex}, Effect: effects.Effect{
		Request: &effects.Request{Delivery: &eventhook.Delivery{
			ID: eventhook.DeliveryIDOf(s.Event.ID, to), TenantID: acme, DestinationID: to, RouteID: of.RouteID, TargetIndex: of.TargetIndex,
			EventID: s.Event.ID, Status: eventhook.DeliveryPending, Event: s.Event,
		}},
	}})
	return s
}

// setCapacity sets the capacity for the deliveries of a plan.
func (o *fakeStore) setCapacity(s *effects.Settlement, n int) {
	for _, a := range s.Actions {
		if r := a.Effect.Request; r != nil {
			o.capacity[eventhook.SubscriptionID(r.Delivery.DestinationID)] = n
		}
	}
}

func arrivalsOf(plans ...*effects.Settlement) (batch []*effects.Arrival) {
	for _, s := range plans {
		batch = append(batch, &effects.Arrival{Event: s.Event, Plan: s})
	}
	return batch
}

func TestDeliveriesOfAnArrivalAreEnqueuedAfterTheCommit(t *testing.T) {
	for _, c := range []struct {
		claim    string
		change   func(*fakeStore, *effects.Settlement)
		enqueued int
		left     int
	}{
		{"a stored event", func(*fakeStore, *effects.Settlement) {}, 3, 0},
		{"a duplicate", func(o *fakeStore, s *effects.Settlement) { o.outcome[s.Event.ID] = "duplicate" }, 0, 0},
		{"an event that the store rejects", func(o *fakeStore, s *effects.Settlement) { o.outcome[s.Event.ID] = "refused" }, 0, 0},
		{"a plan that the store rejects", func(o *fakeStore, s *effects.Settlement) { o.outcome[s.Event.ID] = "plan refused" }, 0, 0},
		{"a stale plan", func(o *fakeStore, _ *effects.Settlement) { o.add(subscriber("b", "*", "")) }, 0, 0},
		{"a repeated key", func(o *fakeStore, s *effects.Settlement) {
			s.Actions[0].Effect.Publication.IdempotencyKey, o.keys[keyIn(acme, "k")] = "k", eventhook.EventID{1}
		}, 2, 0},
		{"a target that is not in memory", func(o *fakeStore, _ *effects.Settlement) { o.isUnknown = true }, 2, 1},
		{"a target that is paused", func(o *fakeStore, _ *effects.Settlement) { o.isPaused = true }, 2, 1},
		{"a target without capacity", func(o *fakeStore, s *effects.Settlement) { o.setCapacity(s, 0) }, 2, 1},
	} {
		t.Run(c.claim, func(t *testing.T) {
			o := newFakeStore(subscriber("a", "*", ""))
			defer o.check(t)
			f, s := newFanout(o), requesting(publishing("paid shipped"))
			match(t, f, s)
			o.setCapacity(s, 1)
			c.change(o, s)
			if err := f.Accept(t.Context(), arrivalsOf(s)); err != nil {
				t.Fatal(err)
			}
			if len(o.enqueued) != c.enqueued || o.notified != c.left {
				t.Errorf("got %d enqueued, NotifyDue called %d times; want %d and %d", len(o.enqueued), o.notified, c.enqueued, c.left)
			}
		})
	}
}

func TestAFailedAcceptReleasesItsReservations(t *testing.T) {
	for _, isStored := range []bool{false, true} {
		o := newFakeStore(subscriber("a", "*", ""))
		f, s := newFanout(o), requesting(publishing("paid"))
		match(t, f, s)
		o.setCapacity(s, 1)
		if o.err = errStore; isStored { // the commit succeeds, but its answer is lost
			o.err, o.lostAnswer = nil, errStore
		}
		if err := f.Accept(t.Context(), arrivalsOf(s)); !errors.Is(err, errStore) || len(o.enqueued) != 0 {
			t.Errorf("got %v and %d enqueued, want the error of the store", err, len(o.enqueued))
		}
		o.check(t)
	}
}

func TestEventsWithoutPlansAreAcceptedUnchanged(t *testing.T) {
	o := newFakeStore()
	defer o.check(t)
	e := news("received", "{}")
	if err := newFanout(o).Accept(t.Context(), []*effects.Arrival{{Event: e}}); err != nil || e.Status != eventhook.EventPending {
		t.Errorf("got %v, stored as %q; want it stored", err, e.Status)
	}
}

// The request of an earlier attempt has a row, which another instance may have leased.
func TestARepeatedRequestIsNotLeased(t *testing.T) {
	o := newFakeStore()
	defer o.check(t)
	f, s := newFanout(o), requesting(publishing(""))
	o.setCapacity(s, 1)
	s.Prior = []eventhook.Action{{IsRequest: true, Status: eventhook.ActionFailed}}
	settle(t, f, s)
	if len(o.enqueued) != 0 || o.notified != 1 {
		t.Errorf("got %d enqueued, NotifyDue called %d times; want 0 and 1", len(o.enqueued), o.notified)
	}
}

func TestARequestThatTheDatabaseRefusesReleasesItsReservation(t *testing.T) {
	o := newFakeStore()
	defer o.check(t)
	f, s := newFanout(o), requesting(publishing(""))
	o.setCapacity(s, 1)
	o.outcome[s.Event.ID] = "plan refused"
	settle(t, f, s)
	if len(o.enqueued) != 0 {
		t.Errorf("got %d enqueued, want 0", len(o.enqueued))
	}
}

// Each reservation is used or released exactly once, for any outcome of the events.
func TestReservationsAreNeitherLostNorUsedTwice(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		a, b := subscriber("a", "*", ""), subscriber("b", "paid", "")
		o := newFakeStore(a, b)
		o.capacity[a.ID], o.capacity[b.ID] = rapid.IntRange(0, 6).Draw(rt, "capacity for a"), rapid.IntRange(0, 6).Draw(rt, "capacity for b")
		f := newFanout(o)
		var batch []*effects.Settlement
		for range rapid.IntRange(1, 6).Draw(rt, "events") {
			s := publishing(rapid.SampledFrom([]string{"", "paid", "paid shipped"}).Draw(rt, "publishes"))
			if rapid.Bool().Draw(rt, "requests") {
				o.setCapacity(requesting(s), rapid.IntRange(0, 1).Draw(rt, "capacity for the target"))
			}
			for i := range s.Actions {
				if p := s.Actions[i].Effect.Publication; p != nil {
					p.IdempotencyKey = rapid.SampledFrom([]string{"", "k"}).Draw(rt, "key")
				}
			}
			o.outcome[s.Event.ID] = rapid.SampledFrom([]string{"", "", "duplicate", "refused", "plan refused", "settled"}).Draw(rt, "outcome")
			match(t, f, s)
			if rapid.IntRange(0, 4).Draw(rt, "stale") == 0 {
				s.Generation--
			}
			batch = append(batch, s)
		}
		if rapid.IntRange(0, 9).Draw(rt, "down") == 0 {
			o.err = errStore
		}
		var err error
		if rapid.Bool().Draw(rt, "arrive") {
			err = f.Accept(rt.Context(), arrivalsOf(batch...))
		} else {
			_, err = f.SettleEvents(rt.Context(), batch)
		}
		if (err != nil) != (o.err != nil) {
			rt.Errorf("got %v, want the store's error", err)
		}
		o.check(rt)
	})
}
