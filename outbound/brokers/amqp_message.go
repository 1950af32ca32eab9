package brokers

import (
	"errors"
	"io"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/targets"
)

// amqpMessage is a message for an exchange.
type amqpMessage struct {
	exchange, key string
	amqp.Publishing
}

// publishing returns a persistent message, whose id is the id of the delivery.
func publishing(m targets.CloudEvent) amqp.Publishing {
	p := amqp.Publishing{DeliveryMode: amqp.Persistent, MessageId: m.DeliveryID,
		ContentType: eventhook.SanitizeLabel(m.ContentType), Headers: amqp.Table{}, Body: m.Data}
	for _, a := range m.Attributes {
		p.Headers["cloudEvents:"+a.Name] = a.Value
		switch a.Name {
		case "type":
			p.Type = eventhook.SanitizeLabel(a.Value)
		case "time":
			p.Timestamp, _ = time.Parse(time.RFC3339, a.Value) // zero, which is omitted, if it is none
		}
	}
	return p
}

// amqpFailure describes the errors of a server, and those of the network without their addresses.
func amqpFailure(err error) error {
	e, is := errors.AsType[*amqp.Error](err)
	if !is {
		return err
	}
	text := eventhook.SanitizeLabel(e.Reason)
	switch {
	case e == amqp.ErrChannelMax:
		return Errorf(eventhook.ErrorRefused, "the server allows too few channels in a connection (channel_max)")
	case e.Code == amqp.AccessRefused && !e.Server:
		return Errorf(eventhook.ErrorAuth, "the server does not accept the credentials")
	case !e.Server:
		return io.ErrUnexpectedEOF
	case e.Code == amqp.AccessRefused, e.Code == amqp.NotAllowed && strings.Contains(text, "refused for user"):
		return Errorf(eventhook.ErrorAuth, "the credentials do not suffice: %s", text)
	case e.Code == amqp.NotFound:
		return Errorf(eventhook.ErrorRefused, "the exchange does not exist: %s", text)
	case e.Recover, e.Code == amqp.NotAllowed:
		return Errorf(eventhook.ErrorRefused, "the server refused: %s", text)
	}
	return Errorf(eventhook.ErrorClosed, "the server closed the connection: %s", text)
}
