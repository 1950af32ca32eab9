// Package replaytest checks implementations of replay.Store.
package replaytest

import (
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/cpushare"
	"github.com/eventhook/eventhook/outbound/replay"
)

// Store is a replay.Store to check, with functions that control its environment.
type Store struct {
	replay.Store
	Subscribe      func(eventTypes ...string) eventhook.Subscription // returns a new active subscription; to payments without types
	SubscribeOther func() eventhook.Subscription                     // returns a new active subscription of another tenant
	// Publish publishes n events, each later than the one before. Each has a delivery to the subscription in
	// the given state, dead or success, or none if the state is "".
	Publish   func(to eventhook.Subscription, n int, status eventhook.DeliveryStatus) []eventhook.EventID
	PublishAs func(origin eventhook.Origin, eventType string) eventhook.EventID // an event without a delivery
	// Start starts a replay of all events until now. It wakes the workers.
	Start func(of eventhook.Subscription, r eventhook.ReplayRequest) eventhook.ReplayID
	// Recover starts the recovery of an outage.
	Recover func(of eventhook.Subscription, since, until time.Time) eventhook.ReplayID
	Replay  func(of eventhook.Subscription, id eventhook.ReplayID) eventhook.Replay
	Cancel  func(of eventhook.Subscription, id eventhook.ReplayID)
	Deliver func(to eventhook.Subscription, status eventhook.DeliveryStatus) int // ends all open deliveries
	Advance func(by time.Duration)
	Now     func() time.Time
}

// Cases maps each rule of replay.Store to the test that checks it. Each test needs a new store.
var Cases = map[string]func(t *testing.T, s Store){
	"the replay that has been due for the longest time is leased": leasedOldest,
	"tenants take turns":                                         turns,
	"one instance has a replay while its lease lasts":            leasedOnce,
	"a step whose lease was lost changes nothing":                lostLease,
	"a step after the end changes nothing":                       lateStep,
	"pages are bounded, and oldest first":                        pages,
	"a page has the deliveries in the states of the replay":      pageStates,
	"a page of missing deliveries has all events":                pageMissing,
	"a step queues deliveries and moves the cursor":              queues,
	"two replays create a missing delivery once":                 missingOnce,
	"two replays queue a delivery once, unless it is dead again": queuedOnce,
	"sent and failed deliveries are counted":                     counts,
	"events are read with their payload":                         events,
	"a delivery that dies after its outage is recovered once":    diedLate,
	"a start wakes the workers":                                  wakes,
	"* does not match lifecycle events that are missing":         lifecycle,
}

const lease = time.Minute

func (s Store) must(t *testing.T, act string, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s: %v", act, err)
	}
}

// lease returns the replay that is leased, nil without one.
func (s Store) lease(t *testing.T) (*replay.Job, time.Time) {
	t.Helper()
	job, next, err := s.LeaseReplay(t.Context(), lease)
	s.must(t, "LeaseReplay", err)
	return job, next
}

func (s Store) wantLeased(t *testing.T, claim string, want eventhook.ReplayID) *replay.Job {
	t.Helper()
	job, _ := s.lease(t)
	if job == nil || job.ID != want {
		t.Fatalf("%s: leased %+v, want %s", claim, job, want)
	}
	return job
}

func (s Store) wantNoneLeased(t *testing.T, claim string) (next time.Time) {
	t.Helper()
	job, next := s.lease(t)
	if job != nil {
		t.Errorf("%s: leased %s, want none", claim, job.ID)
	}
	return next
}

func (s Store) page(t *testing.T, job *replay.Job, limit int) replay.Page {
	t.Helper()
	page, err := s.ReplayPage(t.Context(), job, limit)
	s.must(t, "ReplayPage", err)
	return page
}

// advance writes a step that is due at once.
func (s Store) advance(t *testing.T, job *replay.Job, step replay.Step) {
	t.Helper()
	step.DueAt = s.Now()
	s.must(t, "AdvanceReplay", s.AdvanceReplay(t.Context(), job, step))
}

// queueAll queues all deliveries of a replay in one step.
func (s Store) queueAll(t *testing.T, job *replay.Job) {
	t.Helper()
	page := s.page(t, job, 100)
	s.advance(t, job, replay.Step{Queue: page.Deliveries, Matched: len(page.Deliveries), Cursor: page.Cursor, IsRead: true})
}

// work does all steps of all replays that are due now.
func (s Store) work(t *testing.T) {
	t.Helper()
	w := replay.Worker{Store: s, CPULimiter: cpushare.New(cpushare.DefaultConfig(), nil, s.Now), Log: slog.New(slog.DiscardHandler),
		Now: s.Now}
	for worked := true; worked; {
		var err error
		worked, _, err = w.Step(t.Context())
		s.must(t, "Step", err)
	}
}

func (s Store) wantQueued(t *testing.T, claim string, of eventhook.Subscription, id eventhook.ReplayID, want int64) {
	t.Helper()
	if r := s.Replay(of, id); r.Queued != want {
		t.Errorf("%s: %d deliveries are queued, want %d", claim, r.Queued, want)
	}
}

func eventIDs(list []*eventhook.Delivery) (ids []eventhook.EventID) {
	for _, d := range list {
		ids = append(ids, d.EventID)
	}
	return ids
}

func wantEvents(t *testing.T, claim string, page replay.Page, want []eventhook.EventID) {
	t.Helper()
	if got := eventIDs(page.Deliveries); !slices.Equal(got, want) {
		t.Errorf("%s: the page has the events %v, want %v", claim, got, want)
	}
}
