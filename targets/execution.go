package targets

import (
	"cmp"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/effects"
	"github.com/eventhook/eventhook/internal/payload"
)

// ExecutionSettings are the settings that workflows and tasks share.
type ExecutionSettings struct {
	Queue       string `json:"queue,omitempty" maxLength:"100" doc:"The queue from which workers claim it. The default is the queue named default."`
	MaxAttempts *int   `json:"max_attempts,omitempty" minimum:"1" maximum:"100" doc:"How often it is attempted. The default is 4."`
	IdempotencyKeySettings
}

// Check reports every fault by its member.
func (s ExecutionSettings) Check() (f eventhook.Faults) {
	if s.Queue != "" {
		checkName(&f, "queue", s.Queue)
	}
	if s.MaxAttempts != nil {
		const maxAttempts = 100
		checkRange(&f, "max_attempts", *s.MaxAttempts, 1, maxAttempts)
	}
	return append(f, s.IdempotencyKeySettings.Check()...)
}

// compile returns an effector that creates executions of a type and a kind.
func (s ExecutionSettings) compile(typ eventhook.ExecutionType, kind string) (Effector, error) {
	key, err := s.IdempotencyKeySettings.compile()
	if err != nil {
		return nil, err
	}
	attempts := eventhook.DefaultMaxAttempts
	if s.MaxAttempts != nil {
		attempts = *s.MaxAttempts
	}
	return createExecution{typ: typ, kind: kind, queue: cmp.Or(s.Queue, eventhook.DefaultQueue), maxAttempts: attempts, key: key}, nil
}

// createExecution creates a workflow or a task whose input is the event's body or the output of the
// route's transform. If its idempotency key was used within a day, the execution is skipped. If the
// event has no value at the key's path, the execution is created without a key, since losing work
// is worse than repeating it.
type createExecution struct {
	typ         eventhook.ExecutionType
	kind        string
	queue       string
	maxAttempts int
	key         keyPath
}

func (x createExecution) Effect(e *eventhook.Event, v *payload.View, now time.Time) (effects.Effect, error) {
	return effects.Effect{Execution: &eventhook.Execution{
		ID:             eventhook.NewID[eventhook.Execution](now),
		TenantID:       e.TenantID,
		Type:           x.typ,
		Kind:           x.kind,
		Queue:          x.queue,
		EventID:        e.ID,
		IdempotencyKey: x.key.keyOf(v),
		MaxAttempts:    x.maxAttempts,
		Input:          v.Transformed(),
	}}, nil
}
