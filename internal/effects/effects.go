// Package effects defines the result of planning an event: the event's actions, the effects of the
// actions, and the resulting state of the event. Package route creates a Settlement, package
// outbound adds the deliveries of published events, and internal/pg stores it, either together with
// a new event or when a leased event is settled.
package effects

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/eventhook/eventhook"
)

// Effect is what a target does for one action. Exactly one of its fields is set. Each effect is a
// set of rows in the transaction that stores or settles the event, so it happens exactly once.
type Effect struct {
	Execution   *eventhook.Execution
	Promise     *PromiseOutcome
	Publication *Publication
	Request     *Request
}

// Publication is an event that a route publishes to subscribers. If its IdempotencyKey was claimed
// within the last TargetKeyTTL, the action is skipped.
type Publication struct {
	ID             eventhook.EventID
	EventType      string
	IdempotencyKey string
	Data           json.RawMessage
	Envelope       *eventhook.Envelope
	// Subscriptions match the event. Deliveries has one delivery for each of them, in the same
	// order. This instance sends the deliveries that have a lease.
	Subscriptions []*eventhook.Subscription
	Deliveries    []*eventhook.Delivery
}

// Request is a delivery to a target of the route itself, such as the URL of an http target. It is
// stored with the event's other effects, and the dispatcher sends it.
type Request struct {
	Delivery *eventhook.Delivery
	// Body is the output of the route's transform. It is stored with the delivery, so that each
	// attempt sends the same bytes. If it is nil, each attempt composes the body from the event.
	Body []byte
	// Preview returns the request as JSON without secrets, for users.
	Preview func() json.RawMessage
}

// PromiseOutcome settles the promise with a key. If the promise does not exist and Hold is set, the
// outcome is kept until the promise is created; without Hold the action fails.
type PromiseOutcome struct {
	Key    string
	Status eventhook.PromiseStatus // PromiseResolved or PromiseRejected
	Value  json.RawMessage
	Error  string
	Hold   bool
}

// PlannedAction is an action with its effect. If Failure is set, the action has failed and has no
// effect. A retry of a failed action cannot succeed if Permanent is set.
type PlannedAction struct {
	eventhook.Action
	Effect    Effect
	Failure   string
	Permanent bool
}

// Settlement is the result for an event: the actions of its routes and the resulting state of the
// event. There are no actions if no route matched.
type Settlement struct {
	Event   *eventhook.Event
	Actions []PlannedAction
	// Prior holds the actions of earlier attempts. Actions omits the prior actions that need not be
	// repeated. OpenRequests counts the omitted actions whose delivery is open.
	Prior        []eventhook.Action
	OpenRequests int
	// Matched counts the targets of the routes that match, including targets with prior actions. If
	// it is 0, the event is unrouted.
	Matched int
	Retry   eventhook.RetryPolicy
	// Failure is set if the event failed as a whole: no action was planned, and the event is
	// retried according to its policy.
	Failure string
	// Generation is the generation of the tenant's configuration from which the event was planned.
	// If it is not the current one, the store writes nothing and sets IsStale, and the event is
	// planned again.
	Generation int64
	IsStale    bool
	// IsSettled is set when the settlement was stored and its deliveries were handed over. Settling
	// it again does nothing.
	IsSettled bool
	// PlanBegan and PlanTook say when the event was planned, if planning is traced.
	PlanBegan time.Time
	PlanTook  time.Duration
	// EffectBytes is the approximate number of bytes that the effects write into the database.
	EffectBytes int

	Status      eventhook.EventStatus
	RetryCount  int
	NextRetryAt time.Time // zero: no retry
	LastError   string
}

// Rows is the maximum number of rows that the actions write, including the deliveries of published
// events.
func (s *Settlement) Rows() int {
	rows := len(s.Actions)
	for i := range s.Actions {
		if p := s.Actions[i].Effect.Publication; p != nil {
			rows += len(p.Deliveries)
		}
	}
	return rows
}

// Conclude derives the event's state from the states of its actions. If an action failed, the event
// is failed if it will be retried, and dead otherwise. If no action failed, the event is unrouted if
// no route matched, processing while a request is open, and delivered otherwise. Conclude is
// idempotent.
func (s *Settlement) Conclude(now time.Time) {
	s.RetryCount, s.NextRetryAt, s.LastError = s.Event.RetryCount, time.Time{}, s.Failure
	failed, retryable := s.Failure != "", s.Failure != ""
	for _, a := range s.Actions {
		if a.Status == eventhook.ActionFailed {
			if !failed {
				s.LastError = a.ErrorMessage
			}
			failed, retryable = true, retryable || !a.Permanent
		}
	}
	delay, more := s.Retry.Delay(s.Event.RetryCount + 1)
	switch {
	case failed && retryable && more:
		s.Status, s.NextRetryAt = eventhook.EventFailed, now.Add(delay)
		s.RetryCount++
	case failed:
		s.Status = eventhook.EventDead
	case s.Matched == 0:
		s.Status = eventhook.EventUnrouted
	case s.OpenRequests > 0 || slices.ContainsFunc(s.Actions, isPending):
		s.Status = eventhook.EventProcessing
	default:
		s.Status = eventhook.EventDelivered
	}
}

func isPending(a PlannedAction) bool { return a.Status == eventhook.ActionPending }

// Arrival is a new event to store.
type Arrival struct {
	Event *eventhook.Event
	// Plan is stored with the event, in the same transaction. It is nil if the event is planned
	// after it was stored.
	Plan *Settlement
	// IsPlanRefused is set by the store if the database refuses the effects of the plan. The event
	// is then stored without its plan and is planned again.
	IsPlanRefused bool
}

// PlanToStore returns the plan to store with the event. It returns nil if the event has no plan or
// the database refused the plan.
func (a *Arrival) PlanToStore() *Settlement {
	if a.IsPlanRefused {
		return nil
	}
	return a.Plan
}

// IsPlanned reports whether the event was stored together with its plan.
func (a *Arrival) IsPlanned() bool {
	s := a.PlanToStore()
	return s != nil && !s.IsStale && a.Event.Status != "" && a.Event.Status != eventhook.EventDuplicate
}
