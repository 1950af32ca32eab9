package targets

import (
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/payload"
)

// execution makes a workflow or a task whose input is the event's body, or
// what the route's transform made of it. With an idempotency key, a second one
// of that key within a day is skipped; an event without anything at the key's
// path makes one without a key, since losing work is worse.
type execution struct {
	typ         eventhook.ExecutionType
	kind        string
	queue       string
	maxAttempts int
	key         keyPath
}

func newExecution(t eventhook.Target) (Effector, error) {
	x := execution{typ: eventhook.Workflow, kind: t.WorkflowKind, queue: t.Queue, maxAttempts: t.MaxAttempts}
	if t.Type == eventhook.TargetTask {
		x.typ, x.kind = eventhook.Task, t.TaskKind
	}
	if x.queue == "" {
		x.queue = eventhook.DefaultQueue
	}
	if x.maxAttempts == 0 {
		x.maxAttempts = eventhook.DefaultMaxAttempts
	}
	var err error
	x.key, err = newKeyPath(t)
	return x, err
}

func (x execution) Effect(e *eventhook.Event, v *payload.View, now time.Time) (eventhook.Effect, error) {
	return eventhook.Effect{Execution: &eventhook.Execution{
		ID:             eventhook.NewID[eventhook.Execution](now),
		TenantID:       e.TenantID,
		Type:           x.typ,
		Kind:           x.kind,
		Queue:          x.queue,
		EventID:        e.ID,
		IdempotencyKey: x.key.key(v),
		MaxAttempts:    x.maxAttempts,
		Input:          v.Transformed(),
	}}, nil
}
