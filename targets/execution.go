package targets

import (
	"cmp"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/effects"
	"github.com/eventhook/eventhook/internal/payload"
)

// ExecutionSettings are those of workflows and tasks.
type ExecutionSettings struct {
	Queue       string `json:"queue,omitempty" maxLength:"100" doc:"Where workers claim it; default by default."`
	MaxAttempts *int   `json:"max_attempts,omitempty" minimum:"1" maximum:"100" doc:"How often it is tried; 4 by default."`
	IdempotencyKeySettings
}

// Check tells what is wrong with them.
func (s ExecutionSettings) Check() (f eventhook.Faults) {
	if s.Queue != "" {
		checkName(&f, "queue", s.Queue)
	}
	if s.MaxAttempts != nil {
		const most = 100
		checkRange(&f, "max_attempts", *s.MaxAttempts, 1, most)
	}
	return append(f, s.IdempotencyKeySettings.Check()...)
}

// compile makes an effector for executions of a type and a kind.
func (s ExecutionSettings) compile(typ eventhook.ExecutionType, kind string) (Effector, error) {
	key, err := s.IdempotencyKeySettings.compile()
	if err != nil {
		return nil, err
	}
	attempts := eventhook.DefaultMaxAttempts
	if s.MaxAttempts != nil {
		attempts = *s.MaxAttempts
	}
	return execution{typ: typ, kind: kind, queue: cmp.Or(s.Queue, eventhook.DefaultQueue), maxAttempts: attempts, key: key}, nil
}

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

func (x execution) Effect(e *eventhook.Event, v *payload.View, now time.Time) (effects.Effect, error) {
	return effects.Effect{Execution: &eventhook.Execution{
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
