package route_test

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/effects"
)

var errDown = errors.New("the database is down")

// row is an event as the queue stores it.
type row struct {
	eventhook.Event
	due     time.Time // zero if the event is not due
	actions []eventhook.Action
}

// done returns the targets whose actions have succeeded.
func (r *row) done() (targets []int) {
	for _, a := range r.actions {
		if a.Status == eventhook.ActionSuccess {
			targets = append(targets, a.TargetIndex)
		}
	}
	return targets
}

// queue implements route.Queue and ingest.Store in memory, with leases, tokens, generations and atomic
// batches. Its methods fail if ctx has ended.
type queue struct {
	mu       sync.Mutex
	rows     map[eventhook.EventID]*row
	order    []eventhook.EventID
	wake     chan struct{}
	refuse   error         // if set, SettleEvents returns it
	gate     chan struct{} // if set, SettleEvents waits until it is closed
	settles  []time.Time   // start of each call of SettleEvents
	batches  []int         // number of events that each call of SettleEvents wrote
	claims   int
	released int
	answers  time.Duration // delay of the result of ClaimEvents
	keys     map[acceptedKey]eventhook.EventID

	generation map[eventhook.TenantID]int64

	settling func([]*effects.Settlement) // called by SettleEvents before it writes; may be nil
}

func newQueue() *queue {
	return &queue{rows: map[eventhook.EventID]*row{}, wake: make(chan struct{}), keys: map[acceptedKey]eventhook.EventID{},
		generation: map[eventhook.TenantID]int64{}}
}

type acceptedKey struct {
	source eventhook.SourceID
	key    string
}

// Accept stores new events, with the actions of their plans.
func (q *queue) Accept(ctx context.Context, batch []*effects.Arrival) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if err := cmp.Or(ctx.Err(), q.refuse); err != nil {
		return err
	}
	for _, a := range batch {
		q.accept(a)
	}
	close(q.wake)
	q.wake = make(chan struct{})
	return nil
}

func (q *queue) accept(a *effects.Arrival) {
	e, now := a.Event, time.Now()
	r := &row{due: e.Lease.Until}
	original, isTaken := q.keys[acceptedKey{e.SourceID, e.IdempotencyKey}]
	if a.Plan != nil {
		a.Plan.IsStale = !isTaken && a.Plan.Generation != q.generation[e.TenantID]
	}
	switch {
	case isTaken:
		e.Status, e.DuplicateOf, e.Lease, r.due = eventhook.EventDuplicate, original, eventhook.Lease{}, time.Time{}
	case a.Plan != nil && !a.Plan.IsStale:
		conclude(a.Plan, now)
		e.Status, e.Lease, r.due = a.Plan.Status, eventhook.Lease{}, time.Time{}
		r.actions = actionsOf(a.Plan)
	case e.Lease.Until.IsZero():
		e.Status, r.due = eventhook.EventPending, now
	default:
		e.Status, e.Lease.Token = eventhook.EventProcessing, 1
	}
	if e.IdempotencyKey != "" && !isTaken {
		q.keys[acceptedKey{e.SourceID, e.IdempotencyKey}] = e.ID
	}
	r.Event = *e
	q.rows[e.ID] = r
	q.order = append(q.order, e.ID)
}

// add stores an event that is due now, or leased to the caller.
func (q *queue) add(eventType string, lease time.Duration) *eventhook.Event {
	q.mu.Lock()
	defer q.mu.Unlock()
	r := &row{Event: *newEvent(eventType), due: time.Now().Add(lease)}
	r.BodySize = len(r.Body)
	if r.Status = eventhook.EventPending; lease > 0 {
		r.Status, r.Lease = eventhook.EventProcessing, eventhook.Lease{Token: 1, Until: r.due}
	}
	q.rows[r.ID] = r
	q.order = append(q.order, r.ID)
	if lease == 0 {
		close(q.wake)
		q.wake = make(chan struct{})
	}
	e := r.Event
	return &e
}

func (q *queue) EventsWake() <-chan struct{} {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.wake
}

func (q *queue) ClaimEvents(ctx context.Context, limit int, lease time.Duration) ([]*eventhook.Event, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.claims++
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	var claimed []*eventhook.Event
	for _, id := range q.order {
		r := q.rows[id]
		if len(claimed) == limit || r.due.IsZero() || r.due.After(time.Now()) {
			continue
		}
		if r.Status == eventhook.EventProcessing {
			r.LostLeases++
		}
		r.due = time.Now().Add(lease)
		r.Status, r.Lease = eventhook.EventProcessing, eventhook.Lease{Token: r.Lease.Token + 1, Until: r.due}
		e := r.Event
		claimed = append(claimed, &e)
	}
	q.mu.Unlock()
	time.Sleep(q.answers)
	q.mu.Lock()
	return claimed, nil
}

func (q *queue) SettleEvents(ctx context.Context, batch []*effects.Settlement) (lost []*effects.Settlement, err error) {
	q.mu.Lock()
	q.settles = append(q.settles, time.Now())
	gate, settling := q.gate, q.settling
	q.mu.Unlock()
	if settling != nil {
		settling(batch)
	}
	if gate != nil {
		select {
		case <-gate:
		case <-ctx.Done():
		}
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if err := cmp.Or(ctx.Err(), q.refuse); err != nil {
		return nil, err
	}
	for _, s := range batch {
		if !q.settle(s) {
			lost = append(lost, s)
		}
	}
	q.batches = append(q.batches, len(batch)-len(lost))
	return lost, nil
}

// settle writes one settlement, unless its lease was lost or its plan is stale.
func (q *queue) settle(s *effects.Settlement) bool {
	r := q.rows[s.Event.ID]
	s.IsStale = s.Failure == "" && s.Generation != q.generation[r.TenantID]
	if s.IsStale || r.Lease.Token != s.Event.Lease.Token || r.Status != eventhook.EventProcessing || r.due.IsZero() {
		return false
	}
	conclude(s, time.Now())
	for i := range s.Prior {
		for _, a := range r.actions {
			if a.ID == s.Prior[i].ID && a.IsRequest { // the request may have ended since
				s.Prior[i] = a
			}
		}
	}
	r.actions, r.LostLeases = actionsOf(s), 0
	r.Status, r.RetryCount, r.LastError, r.due = s.Status, s.RetryCount, s.LastError, s.NextRetryAt
	r.concludeRequests()
	return true
}

// concludeRequests ends an event whose requests have all ended.
func (r *row) concludeRequests() {
	if r.Status != eventhook.EventProcessing || !r.due.IsZero() {
		return
	}
	isOpen := false
	for _, a := range r.actions {
		if a.IsRequest && a.Status == eventhook.ActionFailed {
			r.Status = eventhook.EventDead
		}
		isOpen = isOpen || a.Status == eventhook.ActionPending
	}
	if r.Status == eventhook.EventProcessing && !isOpen {
		r.Status = eventhook.EventDelivered
	}
}

// conclude sets the states of a settlement and its actions.
func conclude(s *effects.Settlement, now time.Time) {
	for i := range s.Actions {
		a := &s.Actions[i]
		switch a.Status, a.ErrorMessage = eventhook.ActionSuccess, a.Failure; {
		case a.Failure != "":
			a.Status = eventhook.ActionFailed
		case a.Effect.Request != nil:
			a.Status, a.IsRequest = eventhook.ActionPending, true
		case a.Effect.Execution != nil:
			a.ExecutionID = a.Effect.Execution.ID
		}
	}
	s.Conclude(now)
}

// actionsOf returns the actions of all attempts of an event.
func actionsOf(s *effects.Settlement) (all []eventhook.Action) {
	for _, before := range s.Prior {
		if !slices.ContainsFunc(s.Actions, func(a effects.PlannedAction) bool {
			return a.RouteID == before.RouteID && a.TargetIndex == before.TargetIndex
		}) {
			all = append(all, before)
		}
	}
	for _, a := range s.Actions {
		all = append(all, a.Action)
	}
	return all
}

// endRequest settles the delivery of a request. If it was the last one, the event ends.
func (q *queue) endRequest(d *eventhook.Delivery, status eventhook.ActionStatus) {
	q.mu.Lock()
	defer q.mu.Unlock()
	r := q.rows[d.EventID]
	for i := range r.actions {
		if a := &r.actions[i]; a.IsRequest && a.RouteID == d.RouteID && a.TargetIndex == d.TargetIndex {
			a.Status, a.Attempts = status, 1
		}
	}
	r.concludeRequests()
}

// replay makes an event due again and resets its retries.
func (q *queue) replay(id eventhook.EventID) {
	q.mu.Lock()
	defer q.mu.Unlock()
	r := q.rows[id]
	r.Status, r.RetryCount, r.due = eventhook.EventPending, 0, time.Now()
}

// change changes a tenant's configuration.
func (q *queue) change(tenant eventhook.TenantID) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.generation[tenant]++
}

func (q *queue) EventActions(ctx context.Context, events []*eventhook.Event) (map[eventhook.EventID][]eventhook.Action, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	all := map[eventhook.EventID][]eventhook.Action{}
	for _, e := range events {
		all[e.ID] = slices.Clone(q.rows[e.ID].actions)
	}
	return all, ctx.Err()
}

func (q *queue) ReleaseEvents(ctx context.Context, events []*eventhook.Event) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, e := range events {
		if r := q.rows[e.ID]; ctx.Err() == nil && r.Lease.Token == e.Lease.Token && r.Status == eventhook.EventProcessing && !r.due.IsZero() {
			r.Status, r.due = eventhook.EventPending, time.Now()
			if e.NextRetryAt != nil {
				r.due = *e.NextRetryAt
			}
			q.released++
		}
	}
	return ctx.Err()
}

// set changes the queue while the processor runs.
func (q *queue) set(change func(*queue)) {
	q.mu.Lock()
	defer q.mu.Unlock()
	change(q)
}

// statuses counts the events in each state.
func (q *queue) statuses() map[eventhook.EventStatus]int {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := map[eventhook.EventStatus]int{}
	for _, r := range q.rows {
		n[r.Status]++
	}
	return n
}
