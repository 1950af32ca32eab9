// Package effects holds what planning hands to storing: the actions of one event,
// their effects, and the state of the event that follows from them. A plan is
// made by package route, completed by package outbound with the deliveries of the
// events that it publishes, and stored by internal/pg, either together with a new
// event or when a leased event is settled.
package effects

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/eventhook/eventhook"
)

// Effect is what a target wants done for one action. Exactly one of its fields
// is set. What happens in our own database happens in the transaction that
// settles the event, and so once; a Call is made after that.
type Effect struct {
	Execution   *eventhook.Execution
	Promise     *PromiseOutcome
	Publication *Publication
	Request     *Request
	Call        Call
}

// Request is a delivery to a target of the route itself, such as the URL of an
// http target. It is stored with the event's other effects, and the dispatcher
// sends it.
type Request struct {
	// Body is what the route's transform made of the event, stored with the
	// delivery so that each attempt sends the same bytes. It is nil if the body is
	// composed of the event at each attempt.
	Body []byte
	// Preview returns what people are shown of the request, as JSON without secrets.
	Preview func() json.RawMessage
}

// Publication is an event for subscribers that a route makes of another. With
// an IdempotencyKey, a second one of that key within TargetKeyTTL is skipped.
type Publication struct {
	ID             eventhook.EventID
	EventType      string
	IdempotencyKey string
	Data           json.RawMessage
	Envelope       *eventhook.Envelope
	// Deliveries are made with the event: one for each subscription that wants
	// it, by the subscriptions of that generation. Those with a lease are this
	// instance's to send.
	Deliveries []*eventhook.Delivery
	Generation int64
	// Subscriptions want the event, if IsMatched: it was matched against the
	// subscriptions of that generation.
	Subscriptions []*eventhook.Subscription
	IsMatched     bool
}

// Call is a request to a place outside our database. It is made at least once:
// again after a crash, and with the event's retries until it has succeeded, so
// it carries a key that stays the same.
type Call interface {
	// Do makes the request, and returns nil when it has succeeded. The text of
	// any other answer is for people: no secret, no address that was resolved.
	// When no retry can help, or only a later one, it is a *CallError. Do may
	// be called again, and ends when ctx does or Timeout has passed.
	Do(ctx context.Context) error
	// Timeout is how long Do takes at most.
	Timeout() time.Duration
	// Input tells people what is sent, without secrets.
	Input() json.RawMessage
}

// CallError is why a call has not succeeded, and whether to try it again.
type CallError struct {
	Message   string
	Permanent bool          // no retry can help
	After     time.Duration // how long the other side wants to be left alone; 0: it did not say
}

func (e *CallError) Error() string { return e.Message }

// PromiseOutcome settles the promise with a key. When nobody has made it,
// Hold keeps the outcome until somebody does; else the action fails.
type PromiseOutcome struct {
	Key    string
	Status eventhook.PromiseStatus // PromiseResolved or PromiseRejected
	Value  json.RawMessage
	Error  string
	Hold   bool
}

// PlannedAction is an action and what it does. With Failure set it has failed
// already, and Permanent says that no retry can help; After is how long to wait
// with the next one at least. One with a Call is pending until IsCalled.
type PlannedAction struct {
	eventhook.Action
	Effect    Effect
	Failure   string
	Permanent bool
	After     time.Duration
	CallBytes int  // the memory that the Call holds, about
	IsCalled  bool // the Call was made, with Failure if it did not succeed
	IsSettled bool // an earlier settle under this lease wrote it; it only counts
}

// Settlement is what becomes of a leased event: the actions of its routes, or
// none when no route matched, and the state that follows from them. The event
// itself does not change. With calls that are still to be made, the event stays
// leased, until HoldUntil, and is settled again when they are.
type Settlement struct {
	Event   *eventhook.Event
	Actions []PlannedAction
	// Matched counts the actions of today's routes, those that an earlier try
	// has done included; 0 makes the event unrouted.
	Matched int
	Retry   eventhook.RetryPolicy
	// Failure is why the event failed as a whole: no action was planned, and the
	// event is retried as its policy says.
	Failure string
	// IsStale says that a settle wrote nothing, since what the event publishes
	// must be matched against subscriptions that have changed. Plan it again.
	IsStale bool
	// MadeBytes is what the actions write into the database, but for a few.
	MadeBytes int
	// HoldUntil is when the lease ends of an event whose calls are still to be
	// made: leave time for them. The present gives the event back; zero leaves
	// the lease as it is.
	HoldUntil time.Time

	Status      eventhook.EventStatus
	RetryCount  int
	NextRetryAt time.Time // zero: no retry
	LastError   string
}

// Conclude derives the event's new state from the states of the actions: it
// stays in processing while one of them is pending, and is delivered only if
// each succeeded or was skipped. Doing it again gives the same.
func (s *Settlement) Conclude(now time.Time) {
	s.RetryCount, s.NextRetryAt, s.LastError = s.Event.RetryCount, time.Time{}, s.Failure
	if s.Matched == 0 && s.Failure == "" {
		s.Status = eventhook.EventUnrouted
		return
	}
	if slices.ContainsFunc(s.Actions, func(a PlannedAction) bool { return a.Status == eventhook.ActionPending }) {
		s.Status = eventhook.EventProcessing
		return
	}
	failed, retryable, after := s.Failure != "", s.Failure != "", time.Duration(0)
	for _, a := range s.Actions {
		if a.Status == eventhook.ActionSuccess || a.Status == eventhook.ActionSkipped {
			continue
		}
		if !failed {
			s.LastError = a.ErrorMessage
		}
		failed = true
		retryable = retryable || !a.Permanent
		after = max(after, min(a.After, mostAfter))
	}
	delay, more := s.Retry.Delay(s.Event.RetryCount + 1)
	switch {
	case !failed:
		s.Status = eventhook.EventDelivered
	case retryable && more:
		s.Status, s.NextRetryAt = eventhook.EventFailed, now.Add(max(delay, after))
		s.RetryCount++
	default:
		s.Status = eventhook.EventDead
	}
}

// mostAfter bounds how long others can have us wait.
const mostAfter = time.Hour
