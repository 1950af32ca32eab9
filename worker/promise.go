package worker

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/eventhook/eventhook/client"
)

// Promise is a value that arrives later. A route settles it when a webhook with the value
// arrives, or a program settles it through the API.
type Promise struct {
	ID             string          `json:"id"`
	IdempotencyKey string          `json:"idempotency_key"`
	Status         string          `json:"status"` // Pending, Resolved, Rejected or Expired
	Value          json.RawMessage `json:"value"`  // if Resolved
	Error          string          `json:"error"`  // if Rejected
}

// The statuses of a promise.
const (
	Pending  = "pending"
	Resolved = "resolved"
	Rejected = "rejected"
	Expired  = "expired"
)

// Read decodes the value of a resolved promise with encoding/json into the value that into
// points to. If the promise is pending, rejected or expired, Read returns an error that says so.
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

// MakePromise creates the promise with a key, or returns the existing promise with that key,
// pending or settled. Keys are unique in a tenant, so a later attempt of the job and a resumed
// workflow get the same promise. A new promise expires after the timeout, rounded up to
// seconds. If the timeout is 0, it does not expire.
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
		return p, fmt.Errorf("create the promise %s: %w", key, err)
	}
	return p, nil
}
