package targets

import "github.com/eventhook/eventhook"

// SQS sends messages to a queue of Amazon SQS. The message group of a FIFO queue is the key, or default
// without one, and the deduplication id is the id of the delivery.
type SQS struct {
	SQSQueue
	MessageSettings
}

// Check implements Settings.
func (s *SQS) Check() eventhook.Faults {
	return append(s.SQSQueue.Check(), s.MessageSettings.Check()...)
}

// Compile implements Settings.
func (s *SQS) Compile(d Deps) (Effector, error) { return compileBroker(d, "sqs", s, s.MessageSettings) }

var _ Broker = (*SQS)(nil)
