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
	Priority    int    `json:"priority,omitempty" minimum:"-100" maximum:"100" doc:"The place in the queue: work is claimed in the order of the time at which it is due, minus a minute per step of its priority. The default is 0."`
	KeyTTL      *int   `json:"idempotency_ttl_seconds,omitempty" minimum:"1" maximum:"31536000" doc:"How long an idempotency key prevents a second execution, in seconds. The default is 86400, a day."`
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
	checkRange(&f, "priority", s.Priority, -eventhook.MaxPriority, eventhook.MaxPriority)
	if s.KeyTTL != nil {
		checkRange(&f, "idempotency_ttl_seconds", *s.KeyTTL, 1, int(eventhook.MaxTargetKeyTTL/time.Second))
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
	var ttl time.Duration // the default
	if s.KeyTTL != nil {
		ttl = time.Duration(*s.KeyTTL) * time.Second
	}
	return createExecution{typ: typ, kind: kind, queue: cmp.Or(s.Queue, eventhook.DefaultQueue), maxAttempts: attempts,
		priority: s.Priority,
		key:      key, keyTTL: ttl}, nil
}

// createExecution creates a workflow or a task whose input is the event's body or the output of the
// route's transform. If its idempotency key was used within keyTTL, the execution is skipped. If the
// event has no value at the key's path, the execution is created without a key, since losing work
// is worse than repeating it.
type createExecution struct {
	typ         eventhook.ExecutionType
	kind        string
	queue       string
	maxAttempts int
	priority    int
	key         keyPath
	keyTTL      time.Duration
}

func (x createExecution) Effect(e *eventhook.Event, v *payload.View, now time.Time) (effects.Effect, error) {
	return effects.Effect{Execution: &eventhook.Execution{
		ID:             eventhook.NewID[eventhook.Execution](now),
		TenantID:       e.TenantID,
		Type:           x.typ,
		Kind:           x.kind,
		Queue:          x.queue,
		EventID:        e.ID,
		IdempotencyKey: x.key.ownKeyOf(e, v),
		MaxAttempts:    x.maxAttempts,
		Priority:       x.priority,
		TraceID:        e.TraceID,
		TraceFlags:     e.TraceFlags(),
		KeyTTL:         x.keyTTL,
		Input:          v.Transformed(),
	}}, nil
}
