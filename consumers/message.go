package consumers

import (
	"context"

	"github.com/eventhook/eventhook"
)

// Message is a message of a broker.
type Message struct {
	// Position identifies the message at its place: a repetition has the same position. It is "" if the
	// broker cannot identify messages.
	Position string
	Subject  string // the address of the publisher: a topic, a subject, a routing key, a stream or a queue
	Key      string // of a partition or a group; "" without one
	// Headers have the names of the HTTP binding of CloudEvents, ce- and the attribute, and the values
	// of attributes are percent-encoded as there.
	Headers     []Header
	ContentType string
	Data        []byte
	// Unreadable says why the client cannot read the message, "" if it can.
	Unreadable string

	// IsRefused is set by the caller before Settle. It says that the message becomes no event.
	IsRefused bool
	// Handle is for the client of the broker.
	Handle any
}

// Header is a header of a message. A message may have several headers of one name.
type Header struct{ Name, Value string }

// Consumer consumes the messages of one place. One goroutine uses it, and another one may call Lag until Close is
// called. Errors of its methods are texts for users, without credentials. After an error it must be closed.
type Consumer interface {
	// Receive returns the next messages in their order, at most max. It waits until there is one, or
	// returns the error of ctx.
	Receive(ctx context.Context, max int) ([]*Message, error)
	// Settle tells the broker that messages are done. They must be the first messages that were received and are
	// not settled, in the order of Receive. A refused message is dead-lettered where the broker does that.
	Settle(ctx context.Context, done []*Message) error
	// Lag asks the broker how many messages it has behind the last one that was settled. isKnown is false if the broker
	// did not tell it.
	Lag(ctx context.Context) (messages int64, isKnown bool)
	// Close ends the connection. Messages that were not settled are delivered again, at once where the
	// broker can do that.
	Close()
}

// Limits bound what a consumer holds.
type Limits struct {
	// Bytes is the maximum size of messages that were read and are not settled. A message of more
	// than half of it is an error of Receive.
	Bytes int
}

// Place is what a consumer is opened for.
type Place struct {
	Tenant   eventhook.TenantID
	Source   eventhook.SourceID
	Settings Settings
	Limits   Limits
}
