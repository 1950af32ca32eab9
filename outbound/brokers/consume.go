package brokers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/consumers"
)

// receiver is a consumers.Consumer whose errors are not described for users.
type receiver interface {
	receive(ctx context.Context, max int) ([]*consumers.Message, error)
	settle(ctx context.Context, done []*consumers.Message) error
	lag(ctx context.Context) (messages int64, isKnown bool)
	close()
}

// consumer describes the errors of a receiver.
type consumer struct {
	receiver
	deps    Deps
	server  string
	largest int // bytes of a message that the receiver reads
}

var _ consumers.Consumer = (*consumer)(nil)

// OpenConsumer connects to the broker of a source; SQS is connected by the first call of Receive. The error is described
// for users. The connection is not one of the pool: the caller bounds the number of consumers.
func (b *Brokers) OpenConsumer(ctx context.Context, p consumers.Place) (consumers.Consumer, error) {
	began := b.Now()
	c := &consumer{deps: b.Deps, server: p.Settings.Server(), largest: p.Limits.Bytes / 2} //nolint:mnd // see Limits
	var err error
	if c.receiver, err = b.openReceiver(ctx, p); err != nil {
		return nil, c.described(ctx, began, err)
	}
	return c, nil
}

func (b *Brokers) openReceiver(ctx context.Context, p consumers.Place) (receiver, error) {
	switch s := p.Settings.(type) {
	case *consumers.NATS:
		return b.consumeNATS(ctx, s, p.Limits)
	case *consumers.Kafka:
		return b.consumeKafka(ctx, s, p.Limits)
	case *consumers.AMQP:
		return b.consumeAMQP(ctx, s, p.Limits)
	case *consumers.RedisStream:
		return b.consumeRedis(ctx, s, p)
	case *consumers.SQS:
		return b.consumeSQS(s, p.Limits), nil
	}
	return nil, fmt.Errorf("this program has no client for %T", p.Settings)
}

// described returns an *Error for users. It returns the error of a cancelled ctx unchanged.
func (c *consumer) described(ctx context.Context, since time.Time, err error) error {
	_, isKnown := errors.AsType[*Error](err)
	switch {
	case errors.Is(ctx.Err(), context.Canceled) && errors.Is(err, context.Canceled):
		return err
	case errors.Is(err, errTooLarge):
		return refusedf("a message is larger than %d bytes: raise max_body_bytes, or remove the message", c.largest)
	}
	if !isKnown && isLate(err) {
		return Errorf(eventhook.ErrorTimeout, "no answer from %s in time", c.server)
	}
	class, text := c.deps.Describe(ctx, c.server, since, err)
	return &Error{class, text}
}

// Receive implements consumers.Consumer.
func (c *consumer) Receive(ctx context.Context, max int) ([]*consumers.Message, error) {
	began := c.deps.Now()
	list, err := c.receive(ctx, max)
	if err != nil {
		return nil, c.described(ctx, began, err)
	}
	return list, nil
}

// Settle implements consumers.Consumer.
func (c *consumer) Settle(ctx context.Context, done []*consumers.Message) error {
	began := c.deps.Now()
	if err := c.settle(ctx, done); err != nil {
		return c.described(ctx, began, err)
	}
	return nil
}

// Lag implements consumers.Consumer.
func (c *consumer) Lag(ctx context.Context) (int64, bool) { return c.lag(ctx) }

// Close implements consumers.Consumer.
func (c *consumer) Close() { c.close() }

// cloudPrefixes begin the names of headers that are attributes of CloudEvents: those of the bindings for
// NATS, Kafka, AMQP 1.0 (with a colon or, for JMS, an underscore), and HTTP.
var cloudPrefixes = []string{"ce-", "ce_", "cloudEvents:", "cloudEvents_"}

// message is encodedMessage for headers whose values are not percent-encoded, as in all bindings of
// CloudEvents but those for NATS and HTTP.
func message(subject string, data []byte, headers []consumers.Header) *consumers.Message {
	m := encodedMessage(subject, data, headers)
	for i, h := range m.Headers {
		if strings.HasPrefix(h.Name, "ce-") {
			m.Headers[i].Value = percentEncoded(h.Value)
		}
	}
	return m
}

// encodedMessage returns a message with its headers, under the names of the HTTP binding of CloudEvents.
func encodedMessage(subject string, data []byte, headers []consumers.Header) *consumers.Message {
	m := &consumers.Message{Subject: subject, Data: data}
	for _, h := range headers {
		if strings.EqualFold(h.Name, "content-type") || strings.EqualFold(h.Name, "datacontenttype") {
			m.ContentType = h.Value
			continue
		}
		for _, prefix := range cloudPrefixes {
			if len(h.Name) > len(prefix) && strings.EqualFold(h.Name[:len(prefix)], prefix) {
				h.Name = "ce-" + strings.ToLower(h.Name[len(prefix):])
				break
			}
		}
		if h.Name == "ce-datacontenttype" && m.ContentType == "" {
			m.ContentType = h.Value
		}
		m.Headers = append(m.Headers, h)
	}
	return m
}

// withoutFirst removes elements from the front of a list.
func withoutFirst[M any](list []M, n int) []M { return slices.Delete(list, 0, min(n, len(list))) }

// closeTimeout is how long a consumer takes to return its messages to the broker when it is closed.
const closeTimeout = 2 * time.Second

// refusedf is Errorf for a place that cannot be consumed.
func refusedf(format string, args ...any) *Error {
	return Errorf(eventhook.ErrorRefused, format, args...)
}
