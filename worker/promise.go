package worker

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/eventhook/eventhook/client"
)

// Promise is a value that somebody outside will deliver once: a route, when a
// webhook brings it, or a call of the API.
type Promise struct {
	ID             string          `json:"id"`
	IdempotencyKey string          `json:"idempotency_key"`
	Status         string          `json:"status"` // Pending, Resolved, Rejected or Expired
	Value          json.RawMessage `json:"value"`  // of a resolved one
	Error          string          `json:"error"`  // of a rejected one
}

// The states of a promise.
const (
	Pending  = "pending"
	Resolved = "resolved"
	Rejected = "rejected"
	Expired  = "expired"
)

// Read reads the value of a resolved promise. Of any other it returns an error
// that says what became of it.
func (p Promise) Read(into any) error {
	switch {
	case p.Status == Rejected:
		return fmt.Errorf("the promise %s was rejected: %s", p.IdempotencyKey, p.Error)
	case p.Status != Resolved:
		return fmt.Errorf("the promise %s is %s", p.IdempotencyKey, p.Status)
	}
	if err := json.Unmarshal(p.Value, into); err != nil {
		return fmt.Errorf("the value of the promise %s cannot be read: %w", p.IdempotencyKey, err)
	}
	return nil
}

// MakePromise makes the promise with a key, which is unique in the tenant, or
// returns the one that has it; so asking again, in a later attempt or after the
// workflow was suspended, gives the same promise with what became of it. A new
// one expires after a timeout, counted in seconds; with 0 it never does.
func (j *Job) MakePromise(ctx context.Context, key string, timeout time.Duration) (p Promise, err error) {
	body := client.CreatePromiseRequest{IdempotencyKey: key, TimeoutSeconds: seconds(timeout)}
	if j.Type == Workflow {
		body.WorkflowExecutionID = &j.ID
	}
	var raw []byte
	if _, err = j.api.CreatePromise(ctx, j.tenant, body, client.KeepBody(&raw)); err == nil {
		err = json.Unmarshal(raw, &p)
	}
	if err != nil {
		return p, fmt.Errorf("make the promise %s: %w", key, err)
	}
	return p, nil
}
