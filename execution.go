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

// PromiseStatus is the life of a promise; see docs/states.md.
type PromiseStatus string

// The states of a promise.
const (
	PromisePending  PromiseStatus = "pending"
	PromiseResolved PromiseStatus = "resolved"
	PromiseRejected PromiseStatus = "rejected"
	PromiseExpired  PromiseStatus = "expired"
)

// Promise is a value that somebody outside will deliver once, under a key
// that is unique in its tenant.
type Promise struct {
	ID                  PromiseID
	TenantID            TenantID
	IdempotencyKey      string
	Status              PromiseStatus
	Value               json.RawMessage
	Error               string
	WorkflowExecutionID ExecutionID
	ExpiresAt           *time.Time
	CreatedAt           time.Time
	SettledAt           *time.Time
}
