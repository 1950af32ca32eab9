package console

import (
	"time"

	"github.com/eventhook/eventhook/client"
)

// ActionsShown returns the number of actions in the page.
func (s *story) ActionsShown() int64 { return int64(len(s.Actions)) }

// DeliveriesShown returns the number of deliveries in the page.
func (s *story) DeliveriesShown() int64 { return int64(len(s.Deliveries)) }

// FirstStart returns how long after the event its first action started; "" before that.
func (s *story) FirstStart() string {
	if len(s.Actions) > 0 {
		return s.Actions[0].After
	}
	if s.ProcessedAt != nil {
		return s.After(*s.ProcessedAt)
	}
	return ""
}

// EndedAfter returns how long after the event its processing, or its last delivery, ended; now for an
// open event.
func (s *story) EndedAfter() string {
	if s.IsOpen() {
		return "now"
	}
	var end time.Time
	if s.ProcessedAt != nil {
		end = *s.ProcessedAt
	}
	for _, d := range s.EventDetail.Deliveries {
		if d.CompletedAt != nil && d.CompletedAt.After(end) {
			end = *d.CompletedAt
		}
	}
	if end.IsZero() {
		return ""
	}
	return s.After(end)
}

// EndKind returns the kind of the outcome.
func (s *story) EndKind() string {
	if s.IsOpen() {
		return "running"
	}
	if s.Status == client.EventStatusUnrouted && s.Outcome == client.EventDetailOutcomeSucceeded {
		return "warning"
	}
	return kindOf(string(s.Outcome))
}
