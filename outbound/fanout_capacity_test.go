package outbound_test

import (
	"errors"
	"testing"

	"pgregory.net/rapid"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/effects"
)

// requesting adds a request to a target of a route to a plan.
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

// roomFor is how many deliveries of a plan may be sent at once.
func (o *fakeStore) roomFor(s *effects.Settlement, n int) {
	for _, a := range s.Actions {
		if r := a.Effect.Request; r != nil {
			o.room[eventhook.SubscriptionID(r.Delivery.DestinationID)] = n
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
		claim  string
		change func(*fakeStore, *effects.Settlement)
		put    int
		left   int
	}{
		{"what is stored", func(*fakeStore, *effects.Settlement) {}, 3, 0},
		{"a duplicate", func(o *fakeStore, s *effects.Settlement) { o.outcome[s.Event.ID] = "duplicate" }, 0, 0},
		{"an event that the database refuses", func(o *fakeStore, s *effects.Settlement) { o.outcome[s.Event.ID] = "refused" }, 0, 0},
		{"a plan that it refuses", func(o *fakeStore, s *effects.Settlement) { o.outcome[s.Event.ID] = "plan refused" }, 0, 0},
		{"a stale plan", func(o *fakeStore, _ *effects.Settlement) { o.add(subscriber("b", "*", "")) }, 0, 0},
		{"a key that was seen", func(o *fakeStore, s *effects.Settlement) {
			s.Actions[0].Effect.Publication.IdempotencyKey, o.keys[keyIn(acme, "k")] = "k", eventhook.EventID{1}
		}, 2, 0},
		{"a target that is not in memory", func(o *fakeStore, _ *effects.Settlement) { o.isUnknown = true }, 2, 1},
		{"a target that is paused", func(o *fakeStore, _ *effects.Settlement) { o.isPaused = true }, 2, 1},
		{"a target without room", func(o *fakeStore, s *effects.Settlement) { o.roomFor(s, 0) }, 2, 1},
	} {
		t.Run(c.claim, func(t *testing.T) {
			o := newFakeStore(subscriber("a", "*", ""))
			defer o.check(t)
			f, s := newFanout(o), requesting(publishing("paid shipped"))
			match(t, f, s)
			o.roomFor(s, 1)
			c.change(o, s)
			if err := f.Accept(t.Context(), arrivalsOf(s)); err != nil {
				t.Fatal(err)
			}
			if len(o.put) != c.put || o.left != c.left {
				t.Errorf("got %d put, told of others %d times; want %d and %d", len(o.put), o.left, c.put, c.left)
			}
		})
	}
}

func TestAFailedAcceptReleasesItsReservations(t *testing.T) {
	for _, isStored := range []bool{false, true} {
		o := newFakeStore(subscriber("a", "*", ""))
		f, s := newFanout(o), requesting(publishing("paid"))
		match(t, f, s)
		o.roomFor(s, 1)
		if o.err = errOffice; isStored { // and the answer is lost
			o.err, o.lossy = nil, errOffice
		}
		if err := f.Accept(t.Context(), arrivalsOf(s)); !errors.Is(err, errOffice) || len(o.put) != 0 {
			t.Errorf("got %v and %d put, want that the database is down", err, len(o.put))
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
	o.roomFor(s, 1)
	s.Prior = []eventhook.Action{{IsRequest: true, Status: eventhook.ActionFailed}}
	settle(t, f, s)
	if len(o.put) != 0 || o.left != 1 {
		t.Errorf("got %d put, told of others %d times; want none, once", len(o.put), o.left)
	}
}

func TestARequestThatTheDatabaseRefusesReleasesItsReservation(t *testing.T) {
	o := newFakeStore()
	defer o.check(t)
	f, s := newFanout(o), requesting(publishing(""))
	o.roomFor(s, 1)
	o.outcome[s.Event.ID] = "plan refused"
	settle(t, f, s)
	if len(o.put) != 0 {
		t.Errorf("got %d put, want none", len(o.put))
	}
}

// Whatever becomes of events, each place that was reserved is put to or released once.
func TestReservationsAreNeitherLostNorUsedTwice(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		a, b := subscriber("a", "*", ""), subscriber("b", "paid", "")
		o := newFakeStore(a, b)
		o.room[a.ID], o.room[b.ID] = rapid.IntRange(0, 6).Draw(rt, "room of a"), rapid.IntRange(0, 6).Draw(rt, "room of b")
		f := newFanout(o)
		var batch []*effects.Settlement
		for range rapid.IntRange(1, 6).Draw(rt, "events") {
			s := publishing(rapid.SampledFrom([]string{"", "paid", "paid shipped"}).Draw(rt, "publishes"))
			if rapid.Bool().Draw(rt, "requests") {
				o.roomFor(requesting(s), rapid.IntRange(0, 1).Draw(rt, "room of the target"))
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
			o.err = errOffice
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
