package eventhook

import (
	"encoding/hex"
	"encoding/json"
	"time"
)

// ExecutionType distinguishes workflows from tasks.
type ExecutionType string

// The types of executions.
const (
	Workflow ExecutionType = "workflow"
	Task     ExecutionType = "task"
)

// ExecutionStatus is the state of an execution; see docs/states.md.
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

// Execution is work for a worker: a workflow or a task that a route or a caller created. A
// worker claims it under a lease and settles it. If Input is nil and EventID is set,
// the input is the body of the event.
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
	Priority       int           // see MaxPriority
	TraceID        string        // of the request that started it, if it had one; see Trace
	TraceFlags     string        // of that request's traceparent, two hexadecimal digits; "" without one
	KeyTTL         time.Duration // how long IdempotencyKey prevents a second execution; 0 means TargetKeyTTL. Not stored
	Promises       []Promise     // the promises that a claimed workflow awaited
	Payload        *Payload      // of the event, if the event's body is the input of a claimed execution
}

// MaxPriority is the highest priority of an execution, and -MaxPriority the lowest. A queue
// is claimed in the order of the time at which executions are due, minus PriorityStep times
// their priority. So no execution starves: one that is due more than
// 2*MaxPriority*PriorityStep later is never claimed before it.
const (
	MaxPriority  = 100
	PriorityStep = time.Minute
)

// Bounds of a target's IdempotencyTTL, and of the time before which started work is not due.
const (
	MaxTargetKeyTTL = 365 * 24 * time.Hour
	MaxStartDelay   = 365 * 24 * time.Hour
)

// Trace returns the trace id of the execution: that of the request that started it or,
// without one, the id of the event that created it or its own id.
func (x Execution) Trace() string {
	switch {
	case x.TraceID != "":
		return x.TraceID
	case !x.EventID.IsZero():
		return hex.EncodeToString(x.EventID[:])
	}
	return hex.EncodeToString(x.ID[:])
}

// Traceparent returns the trace context in which a worker continues: the span in which the
// execution was created.
func (x Execution) Traceparent() string { return Traceparent(x.Trace(), x.ID.SpanID(), x.TraceFlags) }

// MaxPageBytes limits the JSON data in one page of executions or promises, in bytes.
// A store ends the page after the entry that exceeds the limit.
const MaxPageBytes = 16 << 20

// Bytes returns the size of the input, state and output of the execution.
func (x Execution) Bytes() int { return len(x.Input) + len(x.State) + len(x.Output) }

// WorkQuery says which executions a worker claims.
type WorkQuery struct {
	Tenant TenantID
	Queue  string
	Kinds  []string // empty matches every kind
	Max    int
	Lease  time.Duration
}

// ExecutionFilter narrows a list of executions. An empty field matches every
// execution.
type ExecutionFilter struct {
	Type   ExecutionType
	Status ExecutionStatus
	Kind   string
	Queue  string
	Before ExecutionID
	Limit  int
}

// Suspension suspends a workflow until promises are settled.
type Suspension struct {
	State   json.RawMessage
	Await   []PromiseID
	Timeout time.Duration // 0 means no timeout
}
