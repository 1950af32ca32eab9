package eventhook

import (
	"encoding/json"
	"time"
)

// EventFilter narrows a list of events; empty fields do not.
type EventFilter struct {
	Source         string // slug
	Status         EventStatus
	EventType      string
	IdempotencyKey string
	ReceivedAfter  time.Time
	ReceivedBefore time.Time
	Before         EventID
	Limit          int
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
