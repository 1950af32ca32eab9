package eventhook

import (
	"strings"
	"time"
)

// EventFilter narrows a list of events. An empty field matches every event.
type EventFilter struct {
	Source         string // slug of the source
	SourceID       SourceID
	Status         EventStatus
	EventType      string // a type, or a pattern: see TypePrefix
	IdempotencyKey string
	TraceID        string // 32 lowercase hexadecimal digits
	RequestID      string
	CorrelationID  string
	Scope          string // of the envelope of a published event
	ReceivedAfter  time.Time
	ReceivedBefore time.Time
	Before         EventID
	Limit          int
}

// NeedsScan reports whether no index of events serves the filter, so that a list must
// examine events that it does not return.
func (f EventFilter) NeedsScan() bool {
	_, isPattern := TypePrefix(f.EventType)
	return f.IdempotencyKey == "" && (isPattern || f.TraceID != "" || f.RequestID != "" || f.CorrelationID != "" || f.Scope != "")
}

// TypePrefix returns the prefix of an event type pattern, such as "payment_intent." for
// payment_intent.*, and "" for *. ok is false for a text that is not a pattern.
func TypePrefix(pattern string) (prefix string, ok bool) {
	prefix, ok = strings.CutSuffix(pattern, "*")
	return prefix, ok && (prefix == "" || strings.HasSuffix(prefix, "."))
}

// EventScan is a page of a list of events that were examined one by one.
type EventScan struct {
	Events  []Event
	Scanned int     // number of events that were examined
	Next    EventID // the list continues before this id; zero at the end
}
