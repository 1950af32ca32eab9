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
	due  time.Time // zero: nothing is owed
	done []eventhook.Action
}

// queue keeps route.Queue's contract in memory: leases, tokens, all or
// nothing, and a ctx that has ended.
type queue struct {
	mu       sync.Mutex
	rows     map[eventhook.EventID]*row
	order    []eventhook.EventID
	wake     chan struct{}
	refuse   error         // what settles answer
	gate     chan struct{} // settles wait for it, when set
	settles  []time.Time   // when settles began
	batches  []int         // how many events each wrote
	claims   int
	released int
	answers  time.Duration // how long the answer to a claim is under way

	settling func([]*effects.Settlement) // sees, and holds up, what is to be settled; may be nil
}

func newQueue() *queue {
	return &queue{rows: map[eventhook.EventID]*row{}, wake: make(chan struct{})}
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

// settle writes one settlement, unless its lease was lost.
func (q *queue) settle(s *effects.Settlement) bool {
	if s.IsStale {
		return false
	}
	for i := range s.Actions {
		a := &s.Actions[i]
		if a.IsSettled {
			continue
		}
		switch a.Status, a.ErrorMessage = eventhook.ActionSuccess, a.Failure; {
		case a.Failure != "":
			a.Status = eventhook.ActionFailed
		case a.Effect.Call != nil && !a.IsCalled:
			a.Status = eventhook.ActionPending
		}
	}
	s.Conclude(time.Now())
	r := q.rows[s.Event.ID]
	if r.Lease.Token != s.Event.Lease.Token || r.Status != eventhook.EventProcessing {
		return false
	}
	for _, a := range s.Actions {
		if a.Status == eventhook.ActionSuccess && !a.IsSettled {
			r.done = append(r.done, a.Action)
		}
	}
	r.LostLeases = 0
	r.Status, r.RetryCount, r.LastError, r.due = s.Status, s.RetryCount, s.LastError, s.NextRetryAt
	if s.Status == eventhook.EventProcessing {
		r.due = s.HoldUntil
	}
	return true
}

func (q *queue) DoneActions(ctx context.Context, events []eventhook.EventID) (map[eventhook.EventID][]eventhook.Action, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	done := map[eventhook.EventID][]eventhook.Action{}
	for _, id := range events {
		done[id] = slices.Clone(q.rows[id].done)
	}
	return done, ctx.Err()
}

func (q *queue) ReleaseEvents(ctx context.Context, events []*eventhook.Event) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, e := range events {
		if r := q.rows[e.ID]; ctx.Err() == nil && r.Lease.Token == e.Lease.Token && r.Status == eventhook.EventProcessing {
			r.Status, r.due = eventhook.EventPending, time.Now()
			if e.NextRetryAt != nil {
				r.due = *e.NextRetryAt
			}
			q.released++
		}
	}
	return ctx.Err()
}

// set changes what the queue does, while it runs.
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
