// Package effects holds what planning hands to storing: the actions of one event,
// their effects, and the state of the event that follows from them. Package route
// makes a Settlement, package outbound adds the deliveries of the events that it
// publishes, and internal/pg stores it: together with a new event, or when a leased
// event is settled.
package effects

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/eventhook/eventhook"
)

// Effect is what a target wants done for one action. Exactly one of its fields is
// set. Every effect is rows of the transaction that stores or settles its event, and
// so happens once.
type Effect struct {
	Execution   *eventhook.Execution
	Promise     *PromiseOutcome
	Publication *Publication
	Request     *Request
}

// Publication is an event for subscribers that a route makes of another. If its
// IdempotencyKey was claimed within the last TargetKeyTTL, the action is skipped.
type Publication struct {
	ID             eventhook.EventID
	EventType      string
	IdempotencyKey string
	Data           json.RawMessage
	Envelope       *eventhook.Envelope
	// Subscriptions want the event, and Deliveries are made with it: one for each
	// subscription, in the same order. A delivery with a lease is this instance's
	// to send.
	Subscriptions []*eventhook.Subscription
	Deliveries    []*eventhook.Delivery
}

// Request is a delivery to a target of the route itself, such as the URL of an
// http target. It is stored with the event's other effects, and the dispatcher
// sends it.
type Request struct {
	Delivery *eventhook.Delivery
	// Body is what the route's transform made of the event, stored with the
	// delivery so that each attempt sends the same bytes. It is nil if the body is
	// composed of the event at each attempt.
	Body []byte
	// Preview returns what people are shown of the request, as JSON without secrets.
	Preview func() json.RawMessage
}

// PromiseOutcome settles the promise with a key. If the promise does not exist,
// Hold keeps the outcome until the promise is made; without Hold the action fails.
type PromiseOutcome struct {
	Key    string
	Status eventhook.PromiseStatus // PromiseResolved or PromiseRejected
	Value  json.RawMessage
	Error  string
	Hold   bool
}

// PlannedAction is an action and its effect. With Failure set the action has failed
// and has no effect, and Permanent says that no retry can help.
type PlannedAction struct {
	eventhook.Action
	Effect    Effect
	Failure   string
	Permanent bool
}

// Settlement is what becomes of an event: the actions of its routes, or none if no
// route matched, and the state that follows from them.
type Settlement struct {
	Event   *eventhook.Event
	Actions []PlannedAction
	// Prior are the actions of earlier tries. Those of them that need not be done
	// again are not among Actions; OpenRequests counts their deliveries that are
	// still owed.
	Prior        []eventhook.Action
	OpenRequests int
	// Matched counts the actions of today's routes, those of earlier tries included.
	// With 0 the event is unrouted.
	Matched int
	Retry   eventhook.RetryPolicy
	// Failure is why the event failed as a whole: no action was planned, and the
	// event is retried as its policy says.
	Failure string
	// Generation is that of the tenant's configuration by which the event was
	// planned. The store writes nothing of a settlement whose generation is not the
	// current one, sets IsStale, and the event is planned again.
	Generation int64
	IsStale    bool
	// IsSettled says that a settle has stored it, and has handed its deliveries over.
	// Settling it again does nothing.
	IsSettled bool
	// EffectBytes is about how many bytes the actions write into the database.
	EffectBytes int

	Status      eventhook.EventStatus
	RetryCount  int
	NextRetryAt time.Time // zero: no retry
	LastError   string
}

// Rows is how many rows the actions make at most, the deliveries of published events
// included.
func (s *Settlement) Rows() int {
	rows := len(s.Actions)
	for i := range s.Actions {
		if p := s.Actions[i].Effect.Publication; p != nil {
			rows += len(p.Deliveries)
		}
	}
	return rows
}

// Conclude derives the event's new state from the states of the actions. A failed
// action makes the event failed while there are retries, and dead afterwards. Else
// the event stays in processing while a request is owed, and is delivered when there
// is none. Concluding again gives the same.
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

// Arrival is a new event on its way into the store.
type Arrival struct {
	Event *eventhook.Event
	// Plan is stored with the event, in the same transaction. It is nil if the event
	// is planned after it was stored, and the store sets it to nil if the database
	// refuses what the plan makes.
	Plan *Settlement
}

// IsPlanned reports whether the event was stored together with its plan.
func (a *Arrival) IsPlanned() bool {
	return a.Plan != nil && !a.Plan.IsStale && a.Event.Status != "" && a.Event.Status != eventhook.EventDuplicate
}
