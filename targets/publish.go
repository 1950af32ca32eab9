package targets

import (
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/effects"
	"github.com/eventhook/eventhook/internal/payload"
)

// publish publishes an event to subscribers. Its data is the event's body or the output of the
// route's transform. If its idempotency key was used within a day, the event is skipped.
type publish struct {
	EventType string `json:"event_type" maxLength:"255" example:"payment.succeeded" doc:"The type of the published event."`
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
	return publishEffect{s.EventType, key}, nil
}

// publishEffect is a compiled publish target.
type publishEffect struct {
	eventType string
	key       keyPath
}

func (p publishEffect) Effect(e *eventhook.Event, v *payload.View, now time.Time) (effects.Effect, error) {
	return effects.Effect{Publication: &effects.Publication{
		ID:             eventhook.NewID[eventhook.Event](now),
		EventType:      p.eventType,
		IdempotencyKey: p.key.ownKeyOf(e, v),
		Data:           v.Render(),
	}}, nil
}
