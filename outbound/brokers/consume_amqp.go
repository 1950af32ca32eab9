package brokers

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"math"
	"net"
	"strconv"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/eventhook/eventhook/consumers"
)

// amqpReceiver consumes a queue on a channel of its own connection.
type amqpReceiver struct {
	window     *amqpWindow
	conn       *amqp.Connection
	channel    *amqp.Channel
	deliveries <-chan amqp.Delivery
	closed     chan *amqp.Error
	queue      string
	max        int // bytes of the messages that receive returns, before the last one
}

func (b *Brokers) consumeAMQP(ctx context.Context, s *consumers.AMQP, limits consumers.Limits) (receiver, error) {
	network, err := b.dialAMQP(ctx, &s.AMQPServer, newCredit(math.MaxInt64)) // the window bounds the bytes
	if err != nil {
		return nil, err
	}
	r := &amqpReceiver{window: newAMQPWindow(network, limits.Bytes/2, s.PrefetchCount()), queue: s.Queue, max: limits.Bytes / 2}
	if r.conn, err = b.greetAMQP(ctx, &s.AMQPServer, r.window); err != nil {
		return nil, r.window.failure(err)
	}
	if err := within(ctx, network, func() error { return r.consume(s.PrefetchCount()) }); err != nil {
		r.close()
		return nil, r.window.failure(err)
	}
	return r, nil
}

func (r *amqpReceiver) consume(prefetch int) (err error) {
	if r.channel, err = r.conn.Channel(); err != nil {
		return err
	}
	r.closed = r.channel.NotifyClose(make(chan *amqp.Error, 1))
	if err := r.channel.Qos(prefetch, 0, false); err != nil {
		return err
	}
	r.deliveries, err = r.channel.Consume(r.queue, "", false, false, false, false, nil)
	return err
}

// receive waits for one message, and takes the messages that were sent behind it.
func (r *amqpReceiver) receive(ctx context.Context, max int) (list []*consumers.Message, err error) {
	for size := 0; len(list) < max && size < r.max; size += len(list[len(list)-1].Data) {
		var d amqp.Delivery
		var isOpen bool
		select {
		case d, isOpen = <-r.deliveries:
		default:
			if len(list) > 0 {
				return list, nil
			}
			select {
			case d, isOpen = <-r.deliveries:
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		if !isOpen {
			return nil, r.cause()
		}
		list = append(list, r.message(&d))
	}
	return list, nil
}

// cause returns why no further messages come.
func (r *amqpReceiver) cause() error {
	select {
	case err := <-r.closed:
		if err != nil {
			return r.window.failure(err)
		}
		return r.window.failure(net.ErrClosed)
	default: // the channel is open: the server has cancelled the consumer
		return refusedf("the server has ended the consumption: the queue was deleted, or moved")
	}
}

func (r *amqpReceiver) message(d *amqp.Delivery) *consumers.Message {
	var headers []consumers.Header
	for name, value := range d.Headers {
		if text, ok := amqpText(value); ok {
			headers = append(headers, consumers.Header{Name: name, Value: text})
		}
	}
	for _, p := range []struct{ name, value string }{{"content-encoding", d.ContentEncoding}, {"message-id", d.MessageId},
		{"correlation-id", d.CorrelationId}, {"message-type", d.Type}, {"app-id", d.AppId}} {
		if p.value != "" {
			headers = append(headers, consumers.Header{Name: p.name, Value: p.value})
		}
	}
	m := message(d.RoutingKey, d.Body, headers)
	m.Handle = d.DeliveryTag
	if d.ContentType != "" {
		m.ContentType = d.ContentType
	}
	if d.MessageId != "" {
		m.Position = r.queue + "/" + d.MessageId
	}
	return m
}

// amqpText returns the value of a header as text. ok is false for tables and lists.
func amqpText(value any) (text string, ok bool) {
	switch v := value.(type) {
	case string:
		return v, true
	case []byte:
		return base64.StdEncoding.EncodeToString(v), true
	case bool, int8, uint8, int16, uint16, int32, uint32, int64, int:
		return fmt.Sprint(v), true
	case float32:
		return strconv.FormatFloat(float64(v), 'g', -1, 32), true //nolint:mnd // bits
	case float64:
		return strconv.FormatFloat(v, 'g', -1, 64), true //nolint:mnd // bits
	case time.Time:
		return v.UTC().Format(time.RFC3339), true
	}
	return "", false
}

// settle rejects the refused messages, and then acknowledges all others before and with the last one. The server may
// send further messages as soon as it reads that.
func (r *amqpReceiver) settle(ctx context.Context, done []*consumers.Message) error {
	r.window.settled(len(done))
	err := within(ctx, r.window, func() error {
		last, isAny := uint64(0), false
		for _, m := range done {
			tag := m.Handle.(uint64) //nolint:forcetypeassert // of this receiver
			if !m.IsRefused {
				last, isAny = tag, true
				continue
			}
			if err := r.channel.Reject(tag, false); err != nil {
				return err
			}
		}
		if !isAny {
			return nil
		}
		return r.channel.Ack(last, true)
	})
	return r.window.failure(err)
}

// lag implements receiver: the server does not tell how many messages wait.
func (*amqpReceiver) lag(context.Context) (int64, bool) { return 0, false }

// close ends the connection. The server puts messages without an acknowledgement back into the queue.
func (r *amqpReceiver) close() {
	late := time.AfterFunc(amqpCloseTimeout, func() { _ = r.window.Close() }) // which may be full, and read nothing
	_ = r.conn.CloseDeadline(time.Now().Add(amqpCloseTimeout))
	late.Stop()
	_ = r.window.Close()
	if r.deliveries == nil {
		return
	}
	for range r.deliveries { // until the library has ended
	}
}

func amqpConsumerFailure(err error) error {
	e, is := errors.AsType[*amqp.Error](err)
	if is && e.Server && e.Code == amqp.NotFound {
		return refusedf("the queue does not exist")
	}
	return amqpFailure(err)
}
