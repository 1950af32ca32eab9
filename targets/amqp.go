package targets

import (
	"cmp"
	"strings"

	"github.com/eventhook/eventhook"
)

// AMQP publishes messages to an exchange of RabbitMQ, or of another server for AMQP 0-9-1.
type AMQP struct {
	URL        string `json:"url" maxLength:"2048" example:"amqps://rabbit.example/production" doc:"The server, with the scheme amqp or amqps and the virtual host as its path; without one: /. It must not contain a user or a password."`
	Exchange   string `json:"exchange,omitempty" maxLength:"255" example:"orders" doc:"The exchange. It must exist. Empty: the default exchange, whose routing keys are the names of queues."`
	RoutingKey string `json:"routing_key" maxLength:"255" example:"orders.{key}" doc:"The routing key. {key} stands for the value at key_path. A message that no queue gets is an error."`
	Username   string `json:"username,omitempty" maxLength:"255" doc:"User name. It needs password. Without it: guest."`
	Password   string `json:"password,omitempty" secret:"url" maxLength:"4096" doc:"Password of username."`
	CA         string `json:"ca,omitempty" maxLength:"65536" doc:"Certificates in PEM that replace the system's authorities."`
	MessageSettings
}

// Check implements Settings.
func (s *AMQP) Check() (f eventhook.Faults) {
	checkServer(&f, "url", s.URL, "amqps://rabbit.example/production", "amqp", "amqps")
	if host := s.VirtualHost(); len(f) == 0 && (!isText(host) || len(host) > maxPlace) {
		f.Add("url", "must have a virtual host of at most %d bytes of text", maxPlace)
	}
	if !isText(s.Exchange) || len(s.Exchange) > maxPlace {
		f.Add("exchange", "must be at most %d bytes of text", maxPlace)
	}
	if s.RoutingKey == "" || !isText(s.RoutingKey) || len(s.RoutingKey) > maxPlace {
		f.Add("routing_key", "must be 1 to %d bytes of text", maxPlace)
	}
	checkKeyed(&f, "routing_key", s.RoutingKey, s.KeyPath)
	checkLogin(&f, s.Username, s.Password)
	checkCA(&f, s.CA)
	return append(f, s.MessageSettings.Check()...)
}

// Compile implements Settings.
func (s *AMQP) Compile(d Deps) (Effector, error) {
	return compileBroker(d, "amqp", s, s.MessageSettings)
}

// Server implements Broker.
func (s *AMQP) Server() string { return hostsOf(s.URL) }

// amqpPorts are the default ports of the schemes.
var amqpPorts = map[string]string{"amqp": "5672", "amqps": "5671"}

// Address returns the host and the port of the server.
func (s *AMQP) Address() string { return addressOf(s.URL, amqpPorts) }

// UsesTLS reports whether connections use TLS.
func (s *AMQP) UsesTLS() bool { return parsed(s.URL).Scheme == "amqps" }

// VirtualHost returns the virtual host: the path of the URL without its first slash.
func (s *AMQP) VirtualHost() string {
	return cmp.Or(strings.TrimPrefix(parsed(s.URL).Path, "/"), "/")
}

// Place implements Broker.
func (s *AMQP) Place() string {
	if s.Exchange == "" {
		return s.RoutingKey
	}
	return s.Exchange + " " + s.RoutingKey
}

// RoutingKeyOf returns the routing key of a message with a key.
func (s *AMQP) RoutingKeyOf(key string) string {
	text := withKey(s.RoutingKey, key)
	return text[:min(len(text), maxPlace)]
}

func (s *AMQP) connection() any { return []string{s.URL, s.Username, s.Password, s.CA} }

var _ Broker = (*AMQP)(nil)
