package eventhook

import (
	"encoding/json"
	"time"
)

// EventFilter narrows a list of events; empty fields do not.
type EventFilter struct {
	Source         string // slug
	SourceID       SourceID
	Status         EventStatus
	EventType      string
	IdempotencyKey string
	ReceivedAfter  time.Time
	ReceivedBefore time.Time
	Before         EventID
	Limit          int
}

// EventSelection says which events are meant: those with the ids or, without
// ids, the newest of those that the filter and the states let through.
type EventSelection struct {
	IDs      []EventID
	Statuses []EventStatus
	Filter   EventFilter // its Status and Before are not looked at
}

// EventUpdates is what has happened to events since the last news of them.
type EventUpdates struct {
	Events []Event // as they are now, in the order of their receipt
	Missed bool    // something happened that is not told: it was too much
}

// WorkQuery says which executions a worker wants.
type WorkQuery struct {
	Tenant TenantID
	Queue  string
	Kinds  []string // empty: any
	Max    int
	Lease  time.Duration
}

// ExecutionFilter narrows a list of executions; empty fields do not.
type ExecutionFilter struct {
	Type   ExecutionType
	Status ExecutionStatus
	Kind   string
	Queue  string
	Before ExecutionID
	Limit  int
}

// Suspension puts a workflow aside until promises are settled.
type Suspension struct {
	State   json.RawMessage
	Await   []PromiseID
	Timeout time.Duration // 0: none
}
