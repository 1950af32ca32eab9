package eventhook

import (
	"encoding/json"
	"time"
)

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

// Bytes is the size of a promise's value.
func (p Promise) Bytes() int { return len(p.Value) }
