package targets

import "github.com/eventhook/eventhook"

// AMQP publishes messages to an exchange of RabbitMQ, or of another server for AMQP 0-9-1.
type AMQP struct {
	AMQPServer
	Exchange   string `json:"exchange,omitempty" maxLength:"255" example:"orders" doc:"The exchange. It must exist. Empty: the default exchange, whose routing keys are the names of queues."`
	RoutingKey string `json:"routing_key" maxLength:"255" example:"orders.{key}" doc:"The routing key. {key} stands for the value at key_path. A message that no queue gets is an error."`
	MessageSettings
}

// Check implements Settings.
func (s *AMQP) Check() eventhook.Faults {
	f := s.AMQPServer.Check()
	if !isText(s.Exchange) || len(s.Exchange) > maxPlace {
		f.Add("exchange", "must be at most %d bytes of text", maxPlace)
	}
	if s.RoutingKey == "" || !isText(s.RoutingKey) || len(s.RoutingKey) > maxPlace {
		f.Add("routing_key", "must be 1 to %d bytes of text", maxPlace)
	}
	checkKeyed(&f, "routing_key", s.RoutingKey, s.KeyPath)
	return append(f, s.MessageSettings.Check()...)
}

// Compile implements Settings.
func (s *AMQP) Compile(d Deps) (Effector, error) {
	return compileBroker(d, "amqp", s, s.MessageSettings)
}

// Place implements Broker.
func (s *AMQP) Place() string {
	if s.Exchange == "" {
		return s.RoutingKey
	}
	return s.Exchange + " " + s.RoutingKey
}

// RoutingKeyOf returns the routing key of a message with a key. A routing key of AMQP 0-9-1 is a short string, of at most
// 255 bytes: a longer one is cut between two characters.
func (s *AMQP) RoutingKeyOf(key string) string {
	return eventhook.Truncate(withKey(s.RoutingKey, key), maxPlace)
}

var _ Broker = (*AMQP)(nil)
