package ingest_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/ingest"
	"github.com/eventhook/eventhook/internal/effects"
)

func TestEventsWithASlotAreHandedOver(t *testing.T) {
	for _, c := range []struct {
		claim       string
		slots, left int
		put         []string
	}{
		{"all", 10, 0, []string{"first", "a", "b", "c"}},
		{"some", 2, 1, []string{"first", "a", "b"}}, // the first event has its own slot
		{"none", 0, 2, nil},
	} {
		t.Run(c.claim, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newBatcherFixture(t)
				f.handoff.slots = c.slots
				f.accept(event("first"))
				f.accept(event("a"), event("b"), event("c"))
				f.end()
				var put []string
				for _, e := range f.handoff.put {
					put = append(put, string(e.Body))
				}
				if diff := cmp.Diff(c.put, put); diff != "" {
					t.Errorf("put (-want +got):\n%s", diff)
				}
				wantCount(t, "calls of EventsLeft", f.handoff.left, c.left)
				for _, e := range f.store.stored() {
					if leased := slices.Contains(ids(f.handoff.put), e.ID); leased != (e.Status == eventhook.EventProcessing) {
						t.Errorf("%s is stored as %q; handed over: %t", e.Body, e.Status, leased)
					}
				}
			})
		})
	}
}

func TestALeaseBeginsWithTheCommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newBatcherFixture(t)
		f.accept(event("first"))
		f.accept(event("a"))
		time.Sleep(4 * time.Second) // synctest time
		began := time.Now()
		f.commit()
		f.end()
		if got, want := f.handoff.put[1].Lease.Until, began.Add(lease); !got.Equal(want) {
			t.Errorf("leased until %s, want %s", got, want)
		}
	})
}

// For any outcome of the events, each granted slot is used or released exactly once, and
// exactly the leased events are handed over, each once.
func TestSlotsAreNeitherLostNorUsedTwice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := testConfig()
		c.Writers = rapid.IntRange(1, 3).Draw(t, "writers")
		c.BatchEvents = rapid.IntRange(1, 8).Draw(t, "batch")
		s, h := newStore(), &handoff{slots: rapid.IntRange(0, 20).Draw(t, "slots")}
		refused, plans := map[string]bool{}, map[string]string{}
		h.plan = func(e *eventhook.Event) *effects.Settlement {
			if plans[string(e.Body)] == "" {
				return nil
			}
			return planned(e, 1, 0)
		}
		s.isStale = func(e *eventhook.Event) bool { return plans[string(e.Body)] == "stale" }
		s.refusePlan = func(e *eventhook.Event) bool { return plans[string(e.Body)] == "refused" }
		s.refuse = func(e *eventhook.Event) bool { return refused[string(e.Body)] }
		if rapid.IntRange(0, 9).Draw(t, "down") == 0 {
			s.err = errDown
		}
		var events []*eventhook.Event
		for i := range rapid.IntRange(0, 40).Draw(t, "events") {
			e := event(fmt.Sprint(i))
			e.IdempotencyKey = rapid.SampledFrom([]string{"", "", "a", "b"}).Draw(t, "key")
			refused[string(e.Body)] = rapid.IntRange(0, 5).Draw(t, "refused") == 0
			plans[string(e.Body)] = rapid.SampledFrom([]string{"", "", "holds", "holds", "stale", "refused"}).Draw(t, "plan")
			events = append(events, e)
		}
		b := ingest.NewBatcher(c, lease, s, h, &observer{}, slog.New(slog.DiscardHandler), time.Now)
		ctx, stop := context.WithCancel(t.Context())
		var running, senders sync.WaitGroup
		running.Go(func() { _ = b.Run(ctx) })
		results := make([]error, len(events))
		for i, e := range events {
			senders.Go(func() { results[i] = b.Accept(e) })
		}
		senders.Wait()
		stop()
		running.Wait()
		h.check(t)
		stored := ids(s.stored())
		for i, e := range events {
			if (results[i] == nil) != slices.Contains(stored, e.ID) {
				t.Errorf("event %d: Accept returned %v; stored: %t", i, results[i], slices.Contains(stored, e.ID))
			}
		}
		put := ids(h.put)
		for _, e := range s.stored() {
			if n := count(put, e.ID); n > 1 || (n == 1) != (e.Status == eventhook.EventProcessing) {
				t.Errorf("an event with status %q was handed over %d times", e.Status, n)
			}
			if e.Status == eventhook.EventPending && h.left == 0 {
				t.Errorf("an event is pending, and EventsLeft was not called")
			}
		}
	})
}

func count(list []eventhook.EventID, id eventhook.EventID) int {
	n := 0
	for _, other := range list {
		if other == id {
			n++
		}
	}
	return n
}

// While the response is written, the event is already being processed: the race detector
// finds writes to it.
func TestAnswersAndProcessingShareEvents(t *testing.T) {
	r := newFixture(t, limit(1_000_000, 1_000_000, 1_000_000), func(s *eventhook.Source) { s.IdempotencyKeyPaths = []string{"body.id"} })
	var senders sync.WaitGroup
	for range 8 {
		senders.Go(func() {
			for n := range 100 {
				if w := r.send(webhook(fmt.Sprintf(`{"id":%d}`, n))); w.Code != http.StatusOK {
					t.Errorf("answered %d, want 200", w.Code)
				}
			}
		})
	}
	senders.Wait()
	wantCount(t, "accepted", r.observer.outcomes[ingest.OutcomeAccepted], 100)
	wantCount(t, "duplicates", r.observer.outcomes[ingest.OutcomeDuplicate], 700)
	wantCount(t, "handed over", len(r.handoff.put), 100)
}
