package brokers

import (
	"context"
	"crypto/tls"
	"errors"
	"hash/maphash"
	"io"
	"net"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/targets"
)

const (
	// amqpChannels is the number of channels of a connection that messages share. An exchange always
	// has the same channel.
	amqpChannels = 8
	// maxAlone is the maximum number of messages that have a channel of their own.
	maxAlone = 8
	// amqpHeartbeat is the interval of heartbeats. After 1.5 intervals without a sign of the server, the
	// connection is closed.
	amqpHeartbeat = 10 * time.Second
	// amqpCloseTimeout is how long Close waits for the answer of the server.
	amqpCloseTimeout = time.Second
)

// amqpConnection publishes to RabbitMQ, or to another server for AMQP 0-9-1, with publisher confirms.
// Headers have the names of the AMQP 1.0 binding of CloudEvents: cloudEvents: and the attribute.
type amqpConnection struct {
	network net.Conn
	conn    *amqp.Connection
	alone   chan struct{} // has an element for each message with a channel of its own
	ended   chan struct{} // closed when the connection has ended

	mu        sync.Mutex
	channels  [amqpChannels]*amqpChannel
	unblocked chan struct{} // closed when the server takes messages again; nil unless it has blocked them
	reason    string        // why the server has blocked messages
}

func (b *Brokers) openAMQP(ctx context.Context, s *targets.AMQP) (Connection, error) {
	network, err := b.dialAMQP(ctx, &s.AMQPServer, newCredit(minCredit))
	if err != nil {
		return nil, err
	}
	conn, err := b.greetAMQP(ctx, &s.AMQPServer, network)
	if err != nil {
		return nil, amqpFailure(err)
	}
	c := &amqpConnection{network: network, conn: conn, alone: make(chan struct{}, maxAlone), ended: make(chan struct{})}
	go c.watch(c.conn.NotifyBlocked(make(chan amqp.Blocking)))
	return c, nil
}

func (b *Brokers) dialAMQP(ctx context.Context, s *targets.AMQPServer, credit *credit) (net.Conn, error) {
	var secure *tls.Config
	if s.UsesTLS() {
		secure = b.TLSConfig(s.CA)
	}
	return b.dial(ctx, s.Address(), secure, credit)
}

// greetAMQP authenticates and opens the virtual host. After an error the network connection is closed.
func (b *Brokers) greetAMQP(ctx context.Context, s *targets.AMQPServer, network net.Conn) (conn *amqp.Connection, err error) {
	login := &amqp.PlainAuth{Username: "guest", Password: "guest"}
	if s.Username != "" {
		login = &amqp.PlainAuth{Username: s.Username, Password: s.Password}
	}
	err = within(ctx, network, func() (err error) {
		conn, err = amqp.Open(network, amqp.Config{SASL: []amqp.Authentication{login}, Vhost: s.VirtualHost(),
			Heartbeat: amqpHeartbeat, Locale: "en_US",
			Properties: amqp.Table{"product": "Eventhook", "connection_name": b.Name}})
		return err
	})
	if err != nil {
		_ = network.Close()
		_ = conn.CloseDeadline(time.Now()) // ends the goroutines of the library
		return nil, err
	}
	return conn, nil
}

// watch records whether the server takes messages, until the connection ends.
func (c *amqpConnection) watch(changes <-chan amqp.Blocking) {
	defer close(c.ended)
	for b := range changes {
		c.mu.Lock()
		switch {
		case b.Active && c.unblocked == nil:
			c.unblocked = make(chan struct{})
		case !b.Active && c.unblocked != nil:
			close(c.unblocked)
			c.unblocked = nil
		}
		c.reason = eventhook.SanitizeLabel(b.Reason)
		c.mu.Unlock()
	}
}

// blocking returns a channel that is closed when the server takes messages again, and why it has
// blocked them. It returns nil if the server takes messages.
func (c *amqpConnection) blocking() (unblocked <-chan struct{}, reason string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.unblocked, c.reason
}

// Publish implements Connection.
func (c *amqpConnection) Publish(ctx context.Context, b targets.Broker, m targets.CloudEvent) (string, error) {
	s := b.(*targets.AMQP) //nolint:forcetypeassert // the connection was opened for it
	p := amqpMessage{exchange: s.Exchange, key: s.RoutingKeyOf(m.Key), Publishing: publishing(m)}
	err := c.publish(ctx, p)
	if unblocked, reason := c.blocking(); unblocked != nil && errors.Is(err, context.DeadlineExceeded) {
		return "", Errorf(eventhook.ErrorTimeout,
			"no acknowledgement in time: the server takes no messages at present (%s)", reason)
	}
	if err != nil {
		return "", amqpFailure(err)
	}
	if p.exchange == "" {
		return "confirmed for the queue " + eventhook.SanitizeLabel(p.key), nil
	}
	return "confirmed for the exchange " + p.exchange + ", routing key " + eventhook.SanitizeLabel(p.key), nil
}

// publish publishes a message and returns nil when the server has confirmed it. A message that makes
// the server close a channel does not tell so itself. The messages on such a channel are published
// again, each on a channel of its own.
func (c *amqpConnection) publish(ctx context.Context, p amqpMessage) error {
	if unblocked, _ := c.blocking(); unblocked != nil {
		select {
		case <-unblocked:
		case <-c.ended:
			return io.ErrUnexpectedEOF
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	ch := c.channel(p.exchange)
	err := ch.publish(ctx, p)
	if exception, is := errors.AsType[*amqp.Error](err); is && exception.Recover && !ch.isSingle() {
		return c.publishAlone(ctx, p)
	}
	return err
}

var amqpSeed = maphash.MakeSeed()

// channel returns the channel of an exchange. It replaces a channel that was closed.
func (c *amqpConnection) channel(exchange string) *amqpChannel {
	c.mu.Lock()
	defer c.mu.Unlock()
	place := &c.channels[maphash.String(amqpSeed, exchange)%amqpChannels]
	if *place == nil || (*place).isClosed() {
		*place = openChannel(c.conn)
	}
	return *place
}

func (c *amqpConnection) publishAlone(ctx context.Context, p amqpMessage) error {
	select {
	case c.alone <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	ch := openChannel(c.conn)
	defer func() {
		go func() {
			ch.close()
			<-c.alone
		}()
	}()
	return ch.publish(ctx, p)
}

// IsClosed implements Connection.
func (c *amqpConnection) IsClosed() bool { return c.conn.IsClosed() }

// Close implements Connection. It waits for the answer of the server for amqpCloseTimeout. If the library does
// not read any more, because the server sent answers that belong to no method, it notices that the
// network is closed by its next heartbeat.
func (c *amqpConnection) Close() {
	go func() { _ = c.conn.Close() }() // an error: it was closed
	late := time.NewTimer(amqpCloseTimeout)
	defer late.Stop()
	select {
	case <-c.ended:
	case <-late.C:
		_ = c.network.Close()
		<-c.ended
	}
}
