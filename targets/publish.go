package targets

import (
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/effects"
	"github.com/eventhook/eventhook/internal/payload"
)

// publish makes an event for subscribers, whose data is the event's body, or
// what the route's transform made of it. With an idempotency key, a second one
// of that key within a day is skipped.
type publish struct {
	EventType string `json:"event_type" maxLength:"255" example:"payment.succeeded" doc:"The type of the event that subscribers get."`
	IdempotencyKeySettings
}

func (s *publish) Check() (f eventhook.Faults) {
	if wrong := eventhook.CheckPublishedEventType(s.EventType); wrong != "" {
		f.Add("event_type", "%s", wrong)
	}
	return append(f, s.IdempotencyKeySettings.Check()...)
}

func (s *publish) Compile(Deps) (Effector, error) {
	key, err := s.IdempotencyKeySettings.compile()
	if err != nil {
		return nil, err
	}
	return publisher{s.EventType, key}, nil
}

// publisher is a publish target, compiled.
type publisher struct {
	eventType string
	key       keyPath
}

func (p publisher) Effect(_ *eventhook.Event, v *payload.View, now time.Time) (effects.Effect, error) {
	return effects.Effect{Publication: &effects.Publication{
		ID:             eventhook.NewID[eventhook.Event](now),
		EventType:      p.eventType,
		IdempotencyKey: p.key.key(v),
		Data:           v.Render(),
	}}, nil
}
