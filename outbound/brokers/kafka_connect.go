package brokers

import (
	"context"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/targets"
)

// Bounds of a client of Kafka.
const (
	maxKafkaRecords  = 16 * slots
	maxKafkaBytes    = 32 << 20 // of records that wait for an acknowledgement
	maxKafkaResponse = 4 << 20
	maxKafkaSockets  = 100 // about two for each broker
	// kafkaRefresh is the minimum time between two requests for metadata, such as the leaders of
	// partitions.
	kafkaRefresh = 250 * time.Millisecond
	// kafkaLinger is how long a record waits for further records. Messages that are sent at once get into one
	// request; without a wait each request would have few of them.
	kafkaLinger = 200 * time.Microsecond
)

func (b *Brokers) openKafka(ctx context.Context, s *targets.Kafka) (Connection, error) {
	c := newKafkaConnection()
	options := []kgo.Opt{
		kgo.SeedBrokers(s.Addresses()...), kgo.Dialer(c.dialer(b, &s.KafkaCluster)), kgo.ClientID(b.Name),
		kgo.WithHooks(c), kgo.DisableClientMetrics(),
		kgo.MetadataMinAge(kafkaRefresh), kgo.UnknownTopicRetries(1),
		kgo.BrokerMaxReadBytes(maxKafkaResponse), kgo.FetchMaxBytes(maxKafkaResponse),
		kgo.MaxBufferedRecords(maxKafkaRecords), kgo.MaxBufferedBytes(maxKafkaBytes),
		kgo.RequiredAcks(kgo.AllISRAcks()), kgo.ProducerLinger(kafkaLinger), kgo.ProducerBatchCompression(kgo.NoCompression()),
		kgo.RecordPartitioner(kafkaPartitioner{kgo.StickyKeyPartitioner(nil)}),
	}
	if s.Username != "" {
		options = append(options, kgo.SASL(kafkaLogin(&s.KafkaCluster)))
	}
	var err error
	if c.client, err = kgo.NewClient(options...); err != nil {
		return nil, err
	}
	if err := c.client.Ping(ctx); err != nil {
		c.client.Close()
		return nil, kafkaFailure(err)
	}
	return c, nil
}

func newKafkaConnection() *kafkaConnection {
	return &kafkaConnection{alone: make(chan struct{}, 1), failed: make(chan struct{}), troubles: map[int32]error{}}
}

func kafkaLogin(s *targets.KafkaCluster) sasl.Mechanism {
	switch s.Mechanism {
	case "scram-sha-256":
		return scram.Auth{User: s.Username, Pass: s.Password}.AsSha256Mechanism()
	case "scram-sha-512":
		return scram.Auth{User: s.Username, Pass: s.Password}.AsSha512Mechanism()
	}
	return plain.Auth{User: s.Username, Pass: s.Password}.AsMechanism()
}

var errManyBrokers = &Error{eventhook.ErrorClosed, "the gateway has as many open connections to the cluster as it may have"}

type dialFunc func(ctx context.Context, network, address string) (net.Conn, error)

// dialer returns a function that connects to a broker, also to one that the cluster advertises.
func (c *kafkaConnection) dialer(b *Brokers, s *targets.KafkaCluster) dialFunc {
	config := b.TLSConfig(s.CA)
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		if c.sockets.Add(1) > maxKafkaSockets {
			c.sockets.Add(-1)
			return nil, errManyBrokers
		}
		conn, err := b.Dialer.DialContext(ctx, network, address)
		if err == nil && s.UsesTLS() {
			conn, err = handshake(ctx, conn, address, config)
		}
		if err != nil {
			c.sockets.Add(-1)
			if !slices.Contains(s.Addresses(), address) && ctx.Err() == nil {
				err = b.advertised(ctx, address, err)
			}
			return nil, err
		}
		return &kafkaSocket{conn, sync.OnceFunc(func() { c.sockets.Add(-1) })}, nil
	}
}

// advertised returns an error that names the address that a broker advertises: users do not know it otherwise. The
// client decides by the cause whether it connects again.
func (d Deps) advertised(ctx context.Context, address string, cause error) error {
	class, text := d.Describe(ctx, address, d.Now(), cause)
	return fmt.Errorf("%w (%w)", Errorf(class, "the broker advertises %s: %s", eventhook.SanitizeLabel(address), text), cause)
}

// kafkaSocket counts open connections.
type kafkaSocket struct {
	net.Conn
	closed func()
}

// Close implements net.Conn.
func (s *kafkaSocket) Close() error {
	s.closed()
	return s.Conn.Close()
}

// OnBrokerConnect implements kgo.HookBrokerConnect. Brokers with a negative id are those of the
// target. Messages do not wait if the credentials are not accepted, or if the first advertised broker
// cannot be reached.
func (c *kafkaConnection) OnBrokerConnect(m kgo.BrokerMetadata, _ time.Duration, _ net.Conn, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil {
		delete(c.troubles, m.NodeID)
		c.isReached.Store(c.isReached.Load() || m.NodeID >= 0)
		return
	}
	if m.NodeID >= 0 {
		c.troubles[m.NodeID] = err
	}
	if c.failure == nil && (isLoginError(err) || m.NodeID >= 0 && !c.isReached.Load()) {
		c.failure = err
		c.retired.Store(true)
		close(c.failed)
	}
}
