package targets

import (
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/effects"
	"github.com/eventhook/eventhook/internal/payload"
)

// reminder creates a task that asks a user to look at the event.
type reminder struct {
	Assignee string `json:"assignee" maxLength:"100" example:"ops" doc:"User whose queue gets the task."`
	Token    string `json:"token,omitempty" secret:"assignee" doc:"Sealed at rest and shown as [redacted]. It must be set again when assignee changes."`
}

func (s *reminder) Check() (f eventhook.Faults) {
	checkName(&f, "assignee", s.Assignee)
	return f
}

func (s *reminder) Compile(Deps) (Effector, error) { return compiledReminder{s.Assignee}, nil }

// compiledReminder is a compiled reminder target.
type compiledReminder struct{ assignee string }

func (r compiledReminder) Effect(e *eventhook.Event, v *payload.View, now time.Time) (effects.Effect, error) {
	return effects.Effect{Execution: &eventhook.Execution{
		ID: eventhook.NewID[eventhook.Execution](now), TenantID: e.TenantID, EventID: e.ID, Type: eventhook.Task,
		Kind: "remind", Queue: r.assignee, MaxAttempts: eventhook.DefaultMaxAttempts, Input: v.Transformed(),
	}}, nil
}
