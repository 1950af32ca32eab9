package targets

import (
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/effects"
	"github.com/eventhook/eventhook/internal/payload"
)

// reminder creates a task that asks a user to look at the event.
type reminder struct {
	Who   string `json:"who" maxLength:"100" example:"ops" doc:"User whose queue gets the task."`
	Token string `json:"token,omitempty" secret:"who" doc:"Sealed at rest and shown as [redacted]. It must be set again when who changes."`
}

func (s *reminder) Check() (f eventhook.Faults) {
	checkName(&f, "who", s.Who)
	return f
}

func (s *reminder) Compile(Deps) (Effector, error) { return asker{s.Who}, nil }

// asker is a reminder target, compiled.
type asker struct{ who string }

func (a asker) Effect(e *eventhook.Event, v *payload.View, now time.Time) (effects.Effect, error) {
	return effects.Effect{Execution: &eventhook.Execution{
		ID: eventhook.NewID[eventhook.Execution](now), TenantID: e.TenantID, EventID: e.ID, Type: eventhook.Task,
		Kind: "look", Queue: a.who, MaxAttempts: eventhook.DefaultMaxAttempts, Input: v.Transformed(),
	}}, nil
}
