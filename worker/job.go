package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/eventhook/eventhook/client"
)

// Job is a task or workflow that the worker has leased.
type Job struct {
	ID             string // the same in every attempt
	Type           string // Task or Workflow
	Kind           string
	Queue          string
	Attempt        int             // starts at 1; resuming a suspended workflow does not count
	Priority       int             // -100 to 100; see docs/workers.md
	TraceID        string          // of the request that led to the job, for logs and spans
	Traceparent    string          // W3C trace context of the span that created the job; the handler's context continues it
	EventID        string          // the event that created the job; "" if there is none
	IdempotencyKey string          // deduplicates jobs; "" if the target sets no key
	Input          json.RawMessage // created by the route; see Typed
	State          json.RawMessage // saved by Suspend; nil if the workflow was never suspended
	Promises       []Promise       // the promises of the last Suspend

	// Output is the result of the job. If the handler returns nil, Output is stored as JSON.
	Output any

	api    *client.Client
	tenant string
}

// The types of work.
const (
	Task     = "task"
	Workflow = "workflow"
)

// The causes of a cancelled handler context, as context.Cause returns them.
var (
	// ErrLeaseLost means that another worker may process the job, or that it was cancelled.
	ErrLeaseLost = errors.New("the lease of the job is lost")
	// ErrStopped means that the worker stopped and the time of WithDrain is over.
	ErrStopped = errors.New("the worker was stopped before the work was done")
)

// Typed returns a Handler that decodes the input of the job with encoding/json into a T and
// calls handle with it. If the input cannot be decoded, the job fails permanently.
func Typed[T any](handle func(ctx context.Context, job *Job, input T) error) Handler {
	return func(ctx context.Context, job *Job) error {
		var input T
		if err := json.Unmarshal(job.Input, &input); err != nil {
			return Permanent(fmt.Errorf("the input cannot be read: %w", err))
		}
		return handle(ctx, job, input)
	}
}

// Permanent wraps err to mark it as permanent: a job whose handler returns it is dead and is
// not retried. Permanent(nil) returns nil.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return permanentError{err}
}

type permanentError struct{ error }

func (e permanentError) Unwrap() error { return e.error }

// ReadState decodes State with encoding/json into the value that into points to. If State is
// nil, ReadState leaves the value unchanged. Its errors are permanent.
func (j *Job) ReadState(into any) error {
	if j.State == nil {
		return nil
	}
	if err := json.Unmarshal(j.State, into); err != nil {
		return Permanent(fmt.Errorf("the state cannot be read: %w", err))
	}
	return nil
}

// Suspend returns an error that suspends the workflow if the handler returns it. When all
// promises are settled, or at once if they are settled already, a worker claims the workflow
// again. Its Job has the state, the settled promises and the same Attempt. The state is stored
// as JSON. If state is nil, the workflow keeps its previous state.
func (j *Job) Suspend(state any, promises ...Promise) error {
	return j.SuspendFor(0, state, promises...)
}

// SuspendFor is like Suspend with a timeout, after which the workflow is claimed again even if
// promises are pending. The timeout is rounded up to seconds; 0 means no timeout.
func (j *Job) SuspendFor(timeout time.Duration, state any, promises ...Promise) error {
	if j.Type != Workflow {
		return Permanent(fmt.Errorf("only a workflow can be suspended; this is a %s", j.Type))
	}
	s := &suspendError{timeout: seconds(timeout)}
	for _, p := range promises {
		s.await = append(s.await, p.ID)
	}
	if len(s.await) == 0 {
		return Permanent(errors.New("a workflow that awaits no promise cannot be suspended"))
	}
	if state == nil {
		return s
	}
	var err error
	if s.state, err = json.Marshal(state); err != nil {
		return Permanent(fmt.Errorf("the state cannot be written: %w", err))
	}
	return s
}

// suspendError is the error that SuspendFor returns. It is not a failure.
type suspendError struct {
	state   json.RawMessage
	await   []string
	timeout *int64
}

func (*suspendError) Error() string { return "the workflow is suspended" }

// seconds returns d rounded up to seconds, or nil if d is 0.
func seconds(d time.Duration) *int64 {
	if d == 0 {
		return nil
	}
	return new(int64((d + time.Second - 1) / time.Second))
}
