package eventhook

import (
	"encoding/json"
	"time"
)

// PromiseStatus is the state of a promise; see docs/states.md.
type PromiseStatus string

// The states of a promise.
const (
	PromisePending  PromiseStatus = "pending"
	PromiseResolved PromiseStatus = "resolved"
	PromiseRejected PromiseStatus = "rejected"
	PromiseExpired  PromiseStatus = "expired"
)

// Promise is a value that arrives once, from outside, under a key that is unique
// within its tenant.
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

// Bytes returns the size of the value.
func (p Promise) Bytes() int { return len(p.Value) }

// PromiseFilter narrows a list of promises. An empty field matches every promise.
type PromiseFilter struct {
	Status PromiseStatus
	Before PromiseID
	Limit  int
}

// PromiseScan is a page of a list of promises.
type PromiseScan struct {
	Promises []Promise
	Next     PromiseID // the list continues before this id; zero at the end
}
