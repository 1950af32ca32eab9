package brokers

import (
	"context"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/eventhook/eventhook"
)

// If a message is given up while a channel has this many messages that are not confirmed, or not
// written, the connection is closed. Otherwise a server that confirms or reads too little would fill
// memory.
const (
	maxUnconfirmed = 4096
	maxUnwritten   = 2 * slots
)

// amqpChannel is a channel with publisher confirms. The server returns a message that no queue gets,
// and then confirms it, too.
type amqpChannel struct {
	conn   *amqp.Connection
	opened chan struct{} // closed when channel and err are set
	*amqp.Channel
	err error

	ended chan struct{} // closed when the opened channel was closed and cause is set
	cause *amqp.Error   // nil if the gateway closed it

	unconfirmed atomic.Int64 // messages without a confirmation, also those that were given up
	unwritten   atomic.Int64 // messages that wait to be written

	mu      sync.Mutex
	waiting map[string]*amqpWaiting // by message id
}

// amqpWaiting is a message without a confirmation.
type amqpWaiting struct{ isReturned atomic.Bool }

// openChannel begins to open a channel.
func openChannel(conn *amqp.Connection) *amqpChannel {
	ch := &amqpChannel{conn: conn, opened: make(chan struct{}), ended: make(chan struct{}),
		waiting: map[string]*amqpWaiting{}}
	go func() {
		defer close(ch.opened)
		if ch.Channel, ch.err = conn.Channel(); ch.err != nil {
			return
		}
		// Two listeners that are not buffered: when the server's reader has passed a return to both,
		// watch has recorded it, and only then the reader goes on to the confirmation.
		first, second := ch.NotifyReturn(make(chan amqp.Return)), ch.NotifyReturn(make(chan amqp.Return))
		go ch.watch(first, second, ch.NotifyClose(make(chan *amqp.Error, 1)))
		if ch.err = ch.Confirm(false); ch.err != nil {
			_ = ch.Close() // an error: it was closed
		}
	}()
	return ch
}

// watch records returned messages until the channel is closed.
func (ch *amqpChannel) watch(first, second <-chan amqp.Return, closed <-chan *amqp.Error) {
	defer close(ch.ended)
	for isOpen := true; isOpen; {
		var r amqp.Return
		select {
		case r, isOpen = <-first:
		case r, isOpen = <-second:
		}
		ch.mu.Lock()
		if w := ch.waiting[r.MessageId]; w != nil {
			w.isReturned.Store(true)
		}
		ch.mu.Unlock()
	}
	ch.cause = <-closed
}

// isClosed reports whether the channel was opened, or could not be opened, and is closed now.
func (ch *amqpChannel) isClosed() bool {
	select {
	case <-ch.opened:
		return ch.err != nil || ch.IsClosed()
	default:
		return false
	}
}

// isSingle reports whether a message that failed was the only one on the channel without a
// confirmation.
func (ch *amqpChannel) isSingle() bool { return ch.unconfirmed.Load() <= 1 }

// publish publishes a message when the channel is open, and returns nil when the server has confirmed
// it. It writes in another goroutine, because a server that reads nothing would hold it longer than ctx.
func (ch *amqpChannel) publish(ctx context.Context, p amqpMessage) error {
	select {
	case <-ch.opened:
	case <-ctx.Done():
		return ctx.Err()
	}
	if ch.err != nil {
		return ch.err
	}
	w := &amqpWaiting{}
	ch.add(p.MessageId, w)
	defer ch.remove(p.MessageId, w)
	var confirmation *amqp.DeferredConfirmation // nil: the message was not written
	select {
	case confirmation = <-ch.write(p):
	case <-ctx.Done():
		return ch.giveUp(ctx)
	}
	if confirmation == nil {
		return ch.closedBy(ctx)
	}
	select {
	case <-confirmation.Done():
	case <-ctx.Done():
		return ch.giveUp(ctx)
	}
	if !confirmation.Acked() && ch.IsClosed() {
		return ch.closedBy(ctx)
	}
	ch.unconfirmed.Add(-1)
	return outcome(p, w.isReturned.Load(), confirmation.Acked())
}

// write writes a message and sends its confirmation, nil if the message could not be written.
func (ch *amqpChannel) write(p amqpMessage) <-chan *amqp.DeferredConfirmation {
	written := make(chan *amqp.DeferredConfirmation, 1)
	ch.unwritten.Add(1)
	go func() {
		defer ch.unwritten.Add(-1)
		confirmation, err := ch.PublishWithDeferredConfirm(p.exchange, p.key, true, false, p.Publishing)
		if err != nil {
			confirmation = nil
		}
		written <- confirmation
	}()
	return written
}

// outcome returns nil for a message that a queue has.
func outcome(p amqpMessage, isReturned, isStored bool) error {
	key := eventhook.SanitizeLabel(p.key)
	switch {
	case isReturned && p.exchange == "":
		return Errorf(eventhook.ErrorRefused, "no queue has the name %q; declare it", key)
	case isReturned:
		return Errorf(eventhook.ErrorRefused,
			"the exchange %q passed the message to no queue; bind a queue to it for the routing key %q", p.exchange, key)
	case !isStored:
		return Errorf(eventhook.ErrorRefused,
			"the server did not store the message (basic.nack); a queue may be full")
	}
	return nil
}

// closedBy returns why the channel was closed.
func (ch *amqpChannel) closedBy(ctx context.Context) error {
	select {
	case <-ch.ended:
	case <-ctx.Done():
		return ctx.Err()
	}
	if ch.cause == nil {
		return io.ErrUnexpectedEOF
	}
	return fmt.Errorf("the channel was closed: %w", ch.cause)
}

// giveUp returns the error of ctx. The message stays unconfirmed.
func (ch *amqpChannel) giveUp(ctx context.Context) error {
	if ch.unconfirmed.Load() >= maxUnconfirmed || ch.unwritten.Load() >= maxUnwritten {
		go func() { _ = ch.conn.CloseDeadline(time.Now()) }()
	}
	return ctx.Err()
}

func (ch *amqpChannel) add(id string, w *amqpWaiting) {
	ch.unconfirmed.Add(1)
	ch.mu.Lock()
	defer ch.mu.Unlock()
	ch.waiting[id] = w
}

func (ch *amqpChannel) remove(id string, w *amqpWaiting) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	if ch.waiting[id] == w {
		delete(ch.waiting, id)
	}
}

// close closes the channel when it is open.
func (ch *amqpChannel) close() {
	if <-ch.opened; ch.err == nil {
		_ = ch.Close() // an error: it was closed
	}
}
