package consumers

import (
	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/targets"
)

// SQS consumes a queue of Amazon SQS. Refused messages stay in the queue, for its redrive policy.
type SQS struct {
	targets.SQSQueue
	VisibilityTimeoutSeconds int `json:"visibility_timeout_seconds,omitempty" minimum:"0" maximum:"43200" doc:"How long a received message is hidden from other consumers, in seconds. 0 means the timeout of the queue."`
}

const maxVisibility = 43200 // 12 hours

// Check implements targets.Checked.
func (s *SQS) Check() eventhook.Faults {
	f := s.SQSQueue.Check()
	if s.VisibilityTimeoutSeconds < 0 || s.VisibilityTimeoutSeconds > maxVisibility {
		f.Add("visibility_timeout_seconds", "%d is not between 0 and %d", s.VisibilityTimeoutSeconds, maxVisibility)
	}
	return f
}
