package eventhook

import (
	"encoding/json"
	"time"
)

// ExecutionType tells the two kinds of executions apart.
type ExecutionType string

// The types of executions.
const (
	Workflow ExecutionType = "workflow"
	Task     ExecutionType = "task"
)

// ExecutionStatus is the life of an execution; see docs/states.md.
type ExecutionStatus string

// The states of an execution.
const (
	ExecutionPending   ExecutionStatus = "pending"
	ExecutionRunning   ExecutionStatus = "running"
	ExecutionCompleted ExecutionStatus = "completed"
	ExecutionFailed    ExecutionStatus = "failed"
	ExecutionDead      ExecutionStatus = "dead"
	ExecutionSuspended ExecutionStatus = "suspended"
	ExecutionCancelled ExecutionStatus = "cancelled"
)

// Execution is work that a route made: a workflow or a task. A worker claims
// it under a lease and settles it. A nil Input with an EventID means the
// event's own body.
type Execution struct {
	ID             ExecutionID
	TenantID       TenantID
	Type           ExecutionType
	Kind           string
	Queue          string
	Status         ExecutionStatus
	EventID        EventID
	IdempotencyKey string
	Attempt        int
	MaxAttempts    int
	Input          json.RawMessage
	State          json.RawMessage
	Output         json.RawMessage
	Error          string
	Lease          Lease
	DueAt          *time.Time
	CreatedAt      time.Time
	CompletedAt    *time.Time
	Promises       []Promise // those a claimed workflow awaited
	Payload        *Payload  // of the event, if it is the input of what was claimed
}

// MaxPageBytes bounds what the JSON in one page of a list has, but for the last
// entry: a store that lists executions or promises stops after the entry that
// goes beyond it.
const MaxPageBytes = 16 << 20

// Bytes is the size of what workers have stored with an execution.
func (x Execution) Bytes() int { return len(x.Input) + len(x.State) + len(x.Output) }

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
