package console

import (
	"fmt"
	"time"

	"github.com/eventhook/eventhook/client"
	"github.com/eventhook/eventhook/internal/web"
)

// Verified says how the request was verified, such as "verified (v1, secret 2 of 2)"; "" if that is not
// recorded, and for events that are no webhook.
func (s *story) Verified() string {
	v := s.Verification
	switch {
	case v == nil || s.IsUnverified():
		return ""
	case v.SecretsCount == 0:
		return "verified (" + v.Scheme + ")"
	}
	return fmt.Sprintf("verified (%s, secret %d of %d)", v.Scheme, v.Secret, v.SecretsCount)
}

// IsUnverified reports whether the source accepted the request without a verification.
func (s *story) IsUnverified() bool { return s.Verification != nil && s.Verification.Scheme == "none" }

// Rate compares the webhooks of the same minute with today's limit of the source; "" if the number is
// not known.
func (s *story) Rate() string {
	if s.ReceivedInMinute == nil || s.Source == nil || s.Source.RateLimit.RequestsPerMinute == nil {
		return ""
	}
	return fmt.Sprintf("%s in this minute; the limit is %s", web.Plural(*s.ReceivedInMinute, "request", "requests"),
		web.Number(*s.Source.RateLimit.RequestsPerMinute))
}

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
