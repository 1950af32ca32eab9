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

// planned returns a plan with a number of actions and of bytes.
func planned(e *eventhook.Event, actions, bytes int) *effects.Settlement {
	return &effects.Settlement{Event: e, Actions: make([]effects.PlannedAction, actions), Matched: actions, EffectBytes: bytes}
}

// planAll plans every event except "left". The plan of "waits" has an open request.
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

func TestOnlyEventsStoredWithoutAPlanAreHandedOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newBatcherFixture(t)
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
		wantCount(t, "released slots", f.handoff.released, 6)
		wantCount(t, "calls of EventsLeft", f.handoff.left, 0)
	})
}

func TestPlannedEventsNeedNoSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newBatcherFixture(t)
		f.handoff.plan, f.handoff.slots = planAll, 0
		results := f.accept(event("a"), event("b"))
		f.end()
		wantErrors(t, "all", results, nil)
		wantCount(t, "stored with their plans", len(f.handoff.planned), 2)
		wantCount(t, "calls of EventsLeft", f.handoff.left, 0)
	})
}

func TestAFailedCommitReportsNoPlan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newBatcherFixture(t)
		f.handoff.plan, f.store.err = planAll, errDown
		results := f.accept(event("a"), event("left"))
		f.end()
		for i, err := range results {
			if err == nil {
				t.Errorf("event %d: got no error, want one", i)
			}
		}
		wantCount(t, "events passed to Planned", f.handoff.notified, 0)
		wantCount(t, "released slots", f.handoff.released, 2)
	})
}

// The effects of plans count in a batch, so that its transaction stays bounded.
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
		{"few effects do not count", func(c *ingest.Config) { c.BatchEvents = 4 }, func(e *eventhook.Event) *effects.Settlement { return planned(e, 7, 0) }, []int{1, 4, 1}},
		{"many actions", func(c *ingest.Config) { c.BatchEvents = 4 }, func(e *eventhook.Event) *effects.Settlement { return planned(e, 8, 0) }, []int{1, 2, 2, 1}},
		{"many deliveries", func(c *ingest.Config) { c.BatchEvents = 4 }, func(e *eventhook.Event) *effects.Settlement { return publishes(e, 7) }, []int{1, 2, 2, 1}},
		{"more than fits into a batch", func(c *ingest.Config) { c.BatchEvents = 4 }, func(e *eventhook.Event) *effects.Settlement { return publishes(e, 500) }, []int{1, 1, 1, 1, 1, 1}},
		{"many bytes", func(c *ingest.Config) { c.BatchBytes = 100 }, func(e *eventhook.Event) *effects.Settlement { return planned(e, 1, 32) }, []int{1, 3, 2}},
	} {
		t.Run(c.claim, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newBatcherFixture(t, c.change)
				f.handoff.plan = c.plan
				results := f.accept(repeated(6, "x")...)
				f.end()
				wantErrors(t, "all", results, nil)
				if diff := cmp.Diff(c.want, f.store.committed()); diff != "" {
					t.Errorf("commits (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// An event that could not be planned before it was stored is committed and answered with the
// planned events of its batch.
func TestASenderDoesNotWaitForALaterPlan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newBatcherFixture(t)
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
		f := newBatcherFixture(t)
		f.handoff.plan = planAll
		results := f.accept(event(strings.Repeat("x", 300<<10)))
		f.end()
		wantErrors(t, "the event", results, nil)
		wantCount(t, "planned", len(f.handoff.planned), 0)
		wantCount(t, "handed over", len(f.handoff.put), 1)
	})
}
