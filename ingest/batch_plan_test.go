package ingest_test

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/ingest"
	"github.com/eventhook/eventhook/internal/effects"
)

// planned is a plan of so many actions and bytes.
func planned(e *eventhook.Event, actions, bytes int) *effects.Settlement {
	return &effects.Settlement{Event: e, Actions: make([]effects.PlannedAction, actions), Matched: actions, EffectBytes: bytes}
}

// planAll plans every event, but "left". For "waits" a request is owed.
func planAll(e *eventhook.Event) *effects.Settlement {
	s := planned(e, 1, 0)
	switch string(e.Body) {
	case "left":
		return nil
	case "waits":
		s.Status = eventhook.EventProcessing
	}
	return s
}

func bodiesOf(events []eventhook.Event) (list []string) {
	for _, e := range events {
		list = append(list, string(e.Body))
	}
	return list
}

func TestOnlyWhatIsStoredWithoutAPlanIsHandedOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newBatches(t)
		f.handoff.plan = planAll
		isBody := func(body string) func(*eventhook.Event) bool {
			return func(e *eventhook.Event) bool { return string(e.Body) == body }
		}
		f.store.isStale, f.store.refusePlan, f.store.refuse = isBody("stale"), isBody("refused plan"), isBody("refused")
		again := event("again")
		again.IdempotencyKey = "k"
		duplicate := event("duplicate")
		duplicate.IdempotencyKey = "k"
		f.accept(event("first"))
		results := f.accept(event("a"), event("waits"), event("stale"), event("left"), event("refused plan"), again, duplicate, event("refused"))
		f.end()
		wantErrors(t, "all but the refused event", results[:7], nil)
		if diff := cmp.Diff([]string{"stale", "left", "refused plan"}, bodiesOf(f.handoff.put)); diff != "" {
			t.Errorf("handed over (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]string{"first", "a", "waits", "again"}, bodiesOf(f.handoff.planned)); diff != "" {
			t.Errorf("stored with their plans (-want +got):\n%s", diff)
		}
		wantCount(t, "places given back", f.handoff.released, 6)
		wantCount(t, "told of events that are left", f.handoff.left, 0)
	})
}

func TestPlannedEventsNeedNoRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newBatches(t)
		f.handoff.plan, f.handoff.room = planAll, 0
		results := f.accept(event("a"), event("b"))
		f.end()
		wantErrors(t, "all", results, nil)
		wantCount(t, "stored with their plans", len(f.handoff.planned), 2)
		wantCount(t, "told of events that are left", f.handoff.left, 0)
	})
}

func TestACommitThatFailsTellsOfNoPlan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newBatches(t)
		f.handoff.plan, f.store.err = planAll, errDown
		results := f.accept(event("a"), event("left"))
		f.end()
		for i, err := range results {
			if err == nil {
				t.Errorf("event %d: got no error, want one", i)
			}
		}
		wantCount(t, "events of plans that were told", f.handoff.heard, 0)
		wantCount(t, "places given back", f.handoff.released, 2)
	})
}

// What a plan makes counts, so that a transaction stays bounded.
func TestEffectsCountInABatch(t *testing.T) {
	publishes := func(e *eventhook.Event, deliveries int) *effects.Settlement {
		s := planned(e, 1, 0)
		s.Actions[0].Effect.Publication = &effects.Publication{Deliveries: make([]*eventhook.Delivery, deliveries)}
		return s
	}
	for _, c := range []struct {
		claim  string
		change func(*ingest.Config)
		plan   func(*eventhook.Event) *effects.Settlement
		want   []int
	}{
		{"few effects cost nothing", func(c *ingest.Config) { c.BatchEvents = 4 }, func(e *eventhook.Event) *effects.Settlement { return planned(e, 7, 0) }, []int{1, 4, 1}},
		{"many actions", func(c *ingest.Config) { c.BatchEvents = 4 }, func(e *eventhook.Event) *effects.Settlement { return planned(e, 8, 0) }, []int{1, 2, 2, 1}},
		{"many deliveries", func(c *ingest.Config) { c.BatchEvents = 4 }, func(e *eventhook.Event) *effects.Settlement { return publishes(e, 7) }, []int{1, 2, 2, 1}},
		{"more than a batch has", func(c *ingest.Config) { c.BatchEvents = 4 }, func(e *eventhook.Event) *effects.Settlement { return publishes(e, 500) }, []int{1, 1, 1, 1, 1, 1}},
		{"many bytes", func(c *ingest.Config) { c.BatchBytes = 100 }, func(e *eventhook.Event) *effects.Settlement { return planned(e, 1, 32) }, []int{1, 3, 2}},
	} {
		t.Run(c.claim, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newBatches(t, c.change)
				f.handoff.plan = c.plan
				results := f.accept(several(6, "x")...)
				f.end()
				wantErrors(t, "all", results, nil)
				if diff := cmp.Diff(c.want, f.store.committed()); diff != "" {
					t.Errorf("commits (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// An event whose planning falls back is answered by the commit that answers the
// planned events beside it.
func TestASenderDoesNotWaitForThePlanThatFellBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newBatches(t)
		f.handoff.plan = planAll
		f.accept(event("first"))
		results := f.accept(event("a"), event("left"), event("b"))
		f.commit()
		wantErrors(t, "before their commit", results, errNoAnswer)
		f.commit()
		wantErrors(t, "after their commit", results, nil)
		f.end()
	})
}

func TestLargeEventsAreNotPlanned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newBatches(t)
		f.handoff.plan = planAll
		results := f.accept(event(strings.Repeat("x", 300<<10)))
		f.end()
		wantErrors(t, "the event", results, nil)
		wantCount(t, "planned", len(f.handoff.planned), 0)
		wantCount(t, "handed over", len(f.handoff.put), 1)
	})
}
