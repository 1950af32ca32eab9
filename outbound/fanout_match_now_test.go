package outbound_test

import (
	"context"
	"errors"
	"testing"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/effects"
	"github.com/eventhook/eventhook/outbound"
)

func TestMatchNowUsesWhatIsInMemory(t *testing.T) {
	for _, c := range []struct {
		claim      string
		publishes  string
		prepare    func(*fakeStore, *outbound.Fanout)
		generation int64
		want       bool
	}{
		{"nothing to match", "", func(*fakeStore, *outbound.Fanout) {}, 1, true},
		{"no subscriptions in memory", "paid", func(*fakeStore, *outbound.Fanout) {}, 1, false},
		{"subscriptions of the generation", "paid", load, 1, true},
		{"subscriptions of an older generation", "paid", func(o *fakeStore, f *outbound.Fanout) { load(o, f); o.add(subscriber("b", "*", "")) }, 2, false},
		{"subscriptions of a newer generation", "paid", func(o *fakeStore, f *outbound.Fanout) { o.add(subscriber("b", "*", "")); load(o, f) }, 1, false},
		{"invalidated subscriptions", "paid", func(o *fakeStore, f *outbound.Fanout) { load(o, f); f.Subscriptions.Invalidate(acme) }, 1, false},
	} {
		t.Run(c.claim, func(t *testing.T) {
			o := newFakeStore(subscriber("a", "*", ""))
			f, s := newFanout(o), publishing(c.publishes)
			c.prepare(o, f)
			reads := o.reads
			s.Generation = c.generation
			if got := f.MatchNow(nil, s); got != c.want || o.reads != reads {
				t.Errorf("got %t after %d reads, want %t and no read", got, o.reads-reads, c.want)
			}
			for _, a := range s.Actions {
				if made := len(a.Effect.Publication.Deliveries); c.want && made != 1 {
					t.Errorf("got %d deliveries, want 1", made)
				}
			}
		})
	}
}

// load reads the subscriptions of the tenant acme into memory.
func load(_ *fakeStore, f *outbound.Fanout) {
	if _, err := f.Subscriptions.Generation(context.Background(), acme); err != nil {
		panic(err)
	}
}

func TestMatchNowNeedsTheEntriesOfTheCatalogue(t *testing.T) {
	types, c := catalogued()
	o := newFakeStore(subscriber("a", "*", ""))
	f := newFanout(o)
	f.Catalogue = c
	load(o, f)
	plan := func(eventType string) (category string, ok bool) {
		s := publishing(eventType)
		s.Generation = o.generation[acme]
		ok = f.MatchNow(nil, s)
		return s.Actions[0].Effect.Publication.Envelope.Category, ok
	}
	for _, eventType := range []string{"payment.lost", "payment.new"} {
		reads := types.Reads
		if _, ok := plan(eventType); ok || types.Reads != reads {
			t.Errorf("%s: got %t after %d reads, want false and no read", eventType, ok, types.Reads-reads)
		}
		c.Check(t.Context(), nil, news(eventType, "{}"))
	}
	if category, ok := plan("payment.lost"); !ok || category != "payment" {
		t.Errorf("event type in memory: got %q, %t; want payment", category, ok)
	}
	if category, ok := plan("payment.new"); !ok || category != "" {
		t.Errorf("no entry, in memory: got %q, %t; want no category, and a match", category, ok)
	}
}

func TestMatchFollowsTheGenerationOfThePlan(t *testing.T) {
	o := newFakeStore(subscriber("a", "*", ""))
	f := newFanout(o)
	load(o, f)
	o.add(subscriber("b", "*", "")) // without a notification
	newer := publishing("paid")
	newer.Generation = 2
	if err := f.Match(t.Context(), nil, newer); err != nil || len(newer.Actions[0].Effect.Publication.Deliveries) != 2 || o.reads != 2 {
		t.Errorf("older subscriptions: got %v, %d deliveries, %d reads; want them read again, and 2", err,
			len(newer.Actions[0].Effect.Publication.Deliveries), o.reads)
	}
	older := publishing("paid")
	older.Generation = 1
	if err := f.Match(t.Context(), nil, older); !errors.Is(err, eventhook.ErrStalePlan) || o.reads != 2 {
		t.Errorf("newer subscriptions: got %v after %d reads, want ErrStalePlan and no read", err, o.reads-2)
	}
	if s := publishing(""); f.Match(t.Context(), nil, s) != nil {
		t.Error("an event that publishes nothing: got an error, want none")
	}
	f.Subscriptions.InvalidateAll()
	o.err = errStore
	if err := f.Match(t.Context(), nil, publishing("paid")); !errors.Is(err, errStore) {
		t.Errorf("subscriptions that cannot be read: got %v, want the error of the store", err)
	}
}

// After a stale plan, the next plan uses subscriptions that were read afterwards.
func TestAStalePlanInvalidatesTheSubscriptions(t *testing.T) {
	for _, c := range []struct {
		claim string
		store func(*outbound.Fanout, *effects.Settlement) error
	}{
		{"arrival", func(f *outbound.Fanout, s *effects.Settlement) error {
			return f.Accept(context.Background(), arrivalsOf(s))
		}},
		{"settled event", func(f *outbound.Fanout, s *effects.Settlement) error {
			unsettled, err := f.SettleEvents(context.Background(), []*effects.Settlement{s})
			if len(unsettled) != 1 {
				return errors.Join(err, errNothingYet)
			}
			return err
		}},
	} {
		t.Run(c.claim, func(t *testing.T) {
			o := newFakeStore(subscriber("a", "*", ""))
			defer o.check(t)
			f, s := newFanout(o), publishing("paid")
			match(t, f, s)
			o.add(subscriber("b", "*", ""))
			if err := c.store(f, s); err != nil || !s.IsStale || len(o.deliveries) != 0 {
				t.Fatalf("got %v, stale %t, %d deliveries; want nothing stored", err, s.IsStale, len(o.deliveries))
			}
			again := publishing("paid")
			again.Generation = s.Generation
			if f.MatchNow(nil, again) {
				t.Error("after a stale plan: got a match from memory, want the subscriptions invalidated")
			}
			settle(t, f, again)
			if stored, _ := o.storedFor("b"); stored != 1 {
				t.Errorf("b: got %d deliveries, want 1", stored)
			}
		})
	}
}
