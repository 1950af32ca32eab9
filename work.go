package eventhook

import (
	"encoding/json"
	"time"
)

// Effect is what a target wants done in our own database for one action. The
// store carries it out in the transaction that settles the event. Exactly one
// of Execution and Promise is set.
type Effect struct {
	Execution *Execution
	Promise   *PromiseOutcome
}

// PromiseOutcome settles the promise with a key. When nobody has made it,
// Hold keeps the outcome until somebody does; else the action fails.
type PromiseOutcome struct {
	Key    string
	Status PromiseStatus // PromiseResolved or PromiseRejected
	Value  json.RawMessage
	Error  string
	Hold   bool
}

// PlannedAction is an action and what it does. With Failure set it has failed
// already, and Permanent says that no retry can help.
type PlannedAction struct {
	Action
	Effect    Effect
	Failure   string
	Permanent bool
}

// Settlement is what becomes of a leased event: the actions of its routes, or
// none when no route matched, and the state that follows from them. The event
// itself does not change.
type Settlement struct {
	Event   *Event
	Actions []PlannedAction
	// Matched counts the actions of today's routes, those that an earlier try
	// has done included; 0 makes the event unrouted.
	Matched int
	Retry   RetryPolicy

	Status      EventStatus
	RetryCount  int
	NextRetryAt time.Time // zero: no retry
	LastError   string
}

// Conclude derives the event's new state from the states of the actions: it
// is delivered only if each succeeded or was skipped. Doing it again gives
// the same.
func (s *Settlement) Conclude(now time.Time) {
	s.RetryCount, s.NextRetryAt, s.LastError = s.Event.RetryCount, time.Time{}, ""
	if s.Matched == 0 {
		s.Status = EventUnrouted
		return
	}
	failed, retryable := false, false
	for _, a := range s.Actions {
		if a.Status == ActionSuccess || a.Status == ActionSkipped {
			continue
		}
		if !failed {
			s.LastError = a.ErrorMessage
		}
		failed = true
		retryable = retryable || !a.Permanent
	}
	delay, more := s.Retry.Delay(s.Event.RetryCount + 1)
	switch {
	case !failed:
		s.Status = EventDelivered
	case retryable && more:
		s.Status, s.NextRetryAt = EventFailed, now.Add(delay)
		s.RetryCount++
	default:
		s.Status = EventDead
	}
}
