package ingest_test

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/ingest"
	"github.com/eventhook/eventhook/internal/effects"
)

// noon is the start time of every test.
var noon = time.Date(2026, 3, 10, 12, 0, 0, 0, time.UTC)

var errDown = errors.New("the database is down: host=10.1.2.3 password=hunter2")

type scopedKey struct {
	source eventhook.SourceID
	key    string
}

// store is an ingest.Store in memory.
type store struct {
	mu         sync.Mutex
	gate       chan struct{} // unless nil, each Accept receives from it first
	err        error
	lost       int // commits whose answer is lost
	refuse     func(*eventhook.Event) bool
	isStale    func(*eventhook.Event) bool // of plans; nil if none is stale
	refusePlan func(*eventhook.Event) bool // nil if no plan is refused
	keys       map[scopedKey]eventhook.EventID
	events     []eventhook.Event
	batches    []int
}

func newStore() *store { return &store{keys: map[scopedKey]eventhook.EventID{}} }

func (s *store) Accept(ctx context.Context, batch []*effects.Arrival) error {
	s.mu.Lock()
	gate := s.gate
	s.mu.Unlock()
	if gate != nil {
		select {
		case <-gate:
		case <-ctx.Done():
		}
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.batches = append(s.batches, len(batch))
	if s.err != nil {
		return s.err
	}
	for _, a := range batch {
		if s.refuse != nil && s.refuse(a.Event) {
			continue
		}
		s.add(a)
		s.events = append(s.events, *a.Event)
	}
	if s.lost > 0 {
		s.lost--
		return errDown
	}
	return nil
}

func (s *store) add(a *effects.Arrival) {
	e := a.Event
	a.IsPlanRefused = a.Plan != nil && s.refusePlan != nil && s.refusePlan(e)
	plan := a.PlanToStore()
	if plan != nil {
		plan.IsStale = s.isStale != nil && s.isStale(e)
	}
	switch e.Status = eventhook.EventPending; {
	case plan != nil && !plan.IsStale:
		e.Status, e.Lease = cmp.Or(plan.Status, eventhook.EventDelivered), eventhook.Lease{}
	case !e.Lease.Until.IsZero():
		e.Status, e.Lease.Token = eventhook.EventProcessing, 1
	}
	if hash := (scopedKey{e.SourceID, "signed " + e.SignedHash}); e.SignedHash != "" {
		if original, seen := s.keys[hash]; seen {
			e.Status, e.DuplicateOf, e.Lease = eventhook.EventDuplicate, original, eventhook.Lease{}
			return
		}
		s.keys[hash] = e.ID
	}
	if e.IdempotencyKey == "" {
		return
	}
	key := scopedKey{e.SourceID, e.IdempotencyKey}
	if original, seen := s.keys[key]; seen {
		e.Status, e.DuplicateOf, e.Lease = eventhook.EventDuplicate, original, eventhook.Lease{}
		return
	}
	s.keys[key] = e.ID
}

func (s *store) set(change func(*store)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(s)
}

func (s *store) stored() []eventhook.Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.events)
}

func (s *store) committed() []int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.batches)
}

func (h *handoff) grantedSlots() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.granted
}

// handoff is an ingest.Handoff that checks that every granted slot is used by Put or released,
// exactly once.
type handoff struct {
	mu       sync.Mutex
	slots    int
	open     int // granted, but neither used nor released
	granted  int
	released int
	put      []eventhook.Event
	planned  []eventhook.Event // stored together with their plans
	notified int               // number of events passed to Planned
	left     int
	plan     func(*eventhook.Event) *effects.Settlement // nil if no event is planned
	faults   []string
	readers  sync.WaitGroup
}

func (h *handoff) PlanArrival(e *eventhook.Event) *effects.Settlement {
	if h.plan == nil {
		return nil
	}
	return h.plan(e)
}

func (h *handoff) Planned(batch []*effects.Arrival) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.notified += len(batch)
	for _, a := range batch {
		if a.Plan != nil && a.Plan.Event != a.Event {
			h.faults = append(h.faults, "Planned got the plan of another event")
		}
		if a.IsPlanned() {
			h.planned = append(h.planned, *a.Event)
		}
	}
}

func (h *handoff) Reserve(n int) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	n = min(n, h.slots-h.open)
	h.open += n
	h.granted += n
	return n
}

func (h *handoff) Release(n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.released += n
	h.close(n)
}

func (h *handoff) close(n int) {
	h.open -= n
	if n < 0 || h.open < 0 {
		h.faults = append(h.faults, "more slots were returned than granted")
	}
}

// Put reads the events while their senders are being answered, like a processor, so that the
// race detector finds writes to them.
func (h *handoff) Put(events []*eventhook.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.close(len(events))
	for _, e := range events {
		h.put = append(h.put, *e)
		h.readers.Go(func() {
			if read := *e; read.ID.IsZero() {
				panic("Put got an event without an id")
			}
		})
	}
}

func (h *handoff) EventsLeft() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.left++
}

// check fails the test unless every granted slot was used or released.
func (h *handoff) check(t interface{ Errorf(string, ...any) }) {
	h.readers.Wait()
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.open != 0 || h.granted != h.released+len(h.put) {
		t.Errorf("%d slots were granted, %d released and %d used by Put; want each released or used once", h.granted, h.released, len(h.put))
	}
	for _, f := range h.faults {
		t.Errorf("%s", f)
	}
	for _, e := range h.put {
		if e.Status != eventhook.EventProcessing || e.Lease.Until.IsZero() {
			t.Errorf("Put got status %q, lease until %s; want a processing event with a lease", e.Status, e.Lease.Until)
		}
	}
}

// sources is an ingest.Sources in memory that counts its calls.
type sources struct {
	mu    sync.Mutex
	list  []eventhook.Source
	err   error
	calls int
	gate  chan struct{}
}

func (s *sources) FindSource(ctx context.Context, tenant, slug string) (eventhook.Source, error) {
	s.mu.Lock()
	s.calls++
	gate := s.gate
	s.mu.Unlock()
	if gate != nil {
		select {
		case <-gate:
		case <-ctx.Done():
			return eventhook.Source{}, ctx.Err()
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return eventhook.Source{}, s.err
	}
	for _, found := range s.list {
		if found.TenantSlug == tenant && found.Slug == slug {
			return found, nil
		}
	}
	return eventhook.Source{}, eventhook.NotFound("source")
}

func (s *sources) called() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls
}

// observer counts answers and commits.
type observer struct {
	mu       sync.Mutex
	outcomes map[ingest.Outcome]int
	reasons  []string
}

func (o *observer) Answered(outcome ingest.Outcome, reason string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.outcomes[outcome]++
	if reason != "" {
		o.reasons = append(o.reasons, reason)
	}
}

func (*observer) Committed([]*effects.Arrival, time.Duration, error) {}

var (
	_ ingest.Store         = (*store)(nil)
	_ ingest.Handoff       = (*handoff)(nil)
	_ ingest.Sources       = (*sources)(nil)
	_ ingest.Observer      = (*observer)(nil)
	_ ingest.BatchObserver = (*observer)(nil)
)

// logBuffer collects the log of a test.
type logBuffer struct {
	mu   sync.Mutex
	text []byte
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(l.text, p...)
	return len(p), nil
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(l.text)
}

func ids(events []eventhook.Event) []eventhook.EventID {
	var list []eventhook.EventID
	for _, e := range events {
		list = append(list, e.ID)
	}
	return list
}

func wantCount(t *testing.T, what string, got, want int) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %d, want %d", what, got, want)
	}
}
