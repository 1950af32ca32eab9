package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/eventhook/eventhook/client"
)

// Job is a piece of work that the worker holds.
type Job struct {
	ID             string // the same in every attempt
	Type           string // Task or Workflow
	Kind           string
	Queue          string
	Attempt        int             // counted from 1; a workflow that goes on is in the same one
	EventID        string          // the event that it was made of; "" if none
	IdempotencyKey string          // what makes it unique; "" if its target names nothing
	Input          json.RawMessage // what the route gave it; Typed reads it
	State          json.RawMessage // what the workflow was suspended with; nil before
	Promises       []Promise       // those that it awaited

	// Output is what a handler leaves for those who read about the work: it is
	// stored as JSON when the work is completed.
	Output any

	api    *client.Client
	tenant string
}

// The types of work.
const (
	Task     = "task"
	Workflow = "workflow"
)

// The causes with which a handler's context is cancelled.
var (
	ErrLeaseLost = errors.New("the lease is lost: the work is no longer this worker's")
	ErrStopped   = errors.New("the worker was stopped before the work was done")
)

// Typed makes a handler of a function that takes the input as a Go value, as
// encoding/json reads it. Work whose input cannot be read so fails for good.
func Typed[T any](handle func(ctx context.Context, job *Job, input T) error) Handler {
	return func(ctx context.Context, job *Job) error {
		var input T
		if err := json.Unmarshal(job.Input, &input); err != nil {
			return Permanent(fmt.Errorf("the input cannot be read: %w", err))
		}
		return handle(ctx, job, input)
	}
}

// Permanent marks an error that no retry can help: the work is dead after it.
// Permanent of nil is nil.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return permanentError{err}
}

type permanentError struct{ error }

func (e permanentError) Unwrap() error { return e.error }

// ReadState reads what the workflow was suspended with. Before it ever was,
// into stays as it is.
func (j *Job) ReadState(into any) error {
	if j.State == nil {
		return nil
	}
	if err := json.Unmarshal(j.State, into); err != nil {
		return Permanent(fmt.Errorf("the state cannot be read: %w", err))
	}
	return nil
}

// Suspend is what a workflow's handler returns to be put aside until all the
// promises are settled. Then, at once if they are already, the work is claimed
// again, by any worker, with the state, the promises' outcomes and its attempt
// as it was; with a nil state it keeps the one before.
func (j *Job) Suspend(state any, promises ...Promise) error {
	return j.SuspendFor(0, state, promises...)
}

// SuspendFor is Suspend for a limited time, counted in seconds, after which the
// workflow goes on though promises are still pending. 0 is no limit.
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

// suspendError is no failure; it travels like one.
type suspendError struct {
	state   json.RawMessage
	await   []string
	timeout *int64
}

func (*suspendError) Error() string { return "the workflow is suspended" }

// seconds are those that cover a time; nil for none.
func seconds(d time.Duration) *int64 {
	if d == 0 {
		return nil
	}
	return new(int64((d + time.Second - 1) / time.Second))
}
