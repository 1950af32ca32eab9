package consumers

import (
	"cmp"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/targets"
)

// AMQP consumes a queue of RabbitMQ, or of another server for AMQP 0-9-1.
type AMQP struct {
	targets.AMQPServer
	Queue    string `json:"queue" maxLength:"255" example:"orders" doc:"The queue. It must exist. Refused messages go to its dead-letter exchange; without one, the server drops them."`
	Prefetch int    `json:"prefetch,omitempty" minimum:"0" maximum:"1000" doc:"The maximum number of messages that the server sends without an acknowledgement. 0 means the default, 100."`
}

const defaultPrefetch, maxPrefetch = 100, 1000

// Check implements targets.Checked.
func (s *AMQP) Check() eventhook.Faults {
	f := s.AMQPServer.Check()
	checkPlace(&f, "queue", s.Queue)
	if s.Prefetch < 0 || s.Prefetch > maxPrefetch {
		f.Add("prefetch", "%d is not between 0 and %d", s.Prefetch, maxPrefetch)
	}
	return f
}

// Place implements Settings.
func (s *AMQP) Place() string { return "queue " + s.Queue }

// PrefetchCount returns Prefetch or its default.
func (s *AMQP) PrefetchCount() int { return cmp.Or(s.Prefetch, defaultPrefetch) }
