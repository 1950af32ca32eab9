package brokers

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/outbound"
	"github.com/eventhook/eventhook/targets"
)

// Connection is an open connection to a broker. Safe for concurrent use.
type Connection interface {
	// Publish sends a message to the place that b names, and returns after the broker has
	// acknowledged it, or when ctx ends. receipt tells users where the message is, such as a stream
	// and a sequence number. b has the server and the credentials with which the connection was
	// opened. An error that is not a *Error is described for users by Deps.Explain.
	Publish(ctx context.Context, b targets.Broker, m targets.CloudEvent) (receipt string, err error)
	Lendable
}

// Dialer opens network connections within the gateway's address policy. *egress.Client implements
// it.
type Dialer interface {
	DialContext(ctx context.Context, network, address string) (net.Conn, error)
	// Explain returns an error of a connection to a host in words for users, without resolved
	// addresses. The error has a method Class() string, which returns an eventhook.ErrorClass.
	Explain(ctx context.Context, host string, since time.Time, err error) error
}

// Deps are the dependencies of Brokers.
type Deps struct {
	Dialer Dialer
	// RootCAs are the trusted authorities; nil: the authorities of the system.
	RootCAs *x509.CertPool
	Tracer  Tracer // may be nil
	Name    string // by which the gateway introduces itself, such as eventhook/1.2.3
	Now     func() time.Time
}

// Tracer records attempts.
type Tracer interface {
	Sent(d *eventhook.Delivery, attempt int, server string, a eventhook.Attempt)
}

// Error is an error of a broker that users may read.
type Error struct {
	Class eventhook.ErrorClass
	Text  string // contains no credentials and no resolved address
}

func (e *Error) Error() string { return e.Text }

// Errorf returns an Error with a formatted text.
func Errorf(class eventhook.ErrorClass, format string, args ...any) *Error {
	return &Error{class, fmt.Sprintf(format, args...)}
}

// slots is the maximum number of messages that an instance sends to one target at once. Brokers
// answer many messages on one connection.
const slots = 64

// Brokers are the connections of this instance to brokers. Safe for concurrent use. Run closes idle
// connections.
type Brokers struct {
	Deps
	pool *pool
}

// New returns Brokers without a connection.
func New(d Deps) *Brokers {
	b := &Brokers{Deps: d}
	b.pool = newPool(d.Now)
	return b
}

// Run closes idle connections until ctx ends, and then all connections. The dispatcher must have
// ended before.
func (b *Brokers) Run(ctx context.Context) error { return b.pool.run(ctx) }

// Open returns the number of open connections.
func (b *Brokers) Open() int { return b.pool.size() }

// Target returns the destination of a compiled target of a tenant.
func (b *Brokers) Target(tenant eventhook.TenantID, m *targets.Message) (*outbound.Target, error) {
	open, err := b.opener(m.Broker())
	if err != nil {
		return nil, err
	}
	t := &outbound.Target{Address: m.Broker().Server(), Timeout: m.Timeout(), Slots: slots,
		Transport: &transport{brokers: b, message: m, key: poolKey{tenant, m.Connection()}, open: open}}
	if own, isOwn := m.Retry(); isOwn {
		t.Retry = &own
	}
	return t, nil
}

// opener returns the function that opens a connection for a target.
func (b *Brokers) opener(to targets.Broker) (func(ctx context.Context) (Connection, error), error) {
	switch s := to.(type) {
	case *targets.NATS:
		return func(ctx context.Context) (Connection, error) { return b.openNATS(ctx, s) }, nil
	case *targets.Kafka:
		return func(ctx context.Context) (Connection, error) { return b.openKafka(ctx, s) }, nil
	case *targets.AMQP:
		return func(ctx context.Context) (Connection, error) { return b.openAMQP(ctx, s) }, nil
	case *targets.RedisStream:
		return func(ctx context.Context) (Connection, error) { return b.openRedisStream(ctx, s) }, nil
	case *targets.SQS:
		return func(ctx context.Context) (Connection, error) { return b.openSQS(ctx, s) }, nil
	case *targets.PubSub:
		return func(ctx context.Context) (Connection, error) { return b.openPubSub(ctx, s) }, nil
	}
	return nil, fmt.Errorf("this program has no client for %T", to)
}

// TLSConfig returns the configuration of TLS connections. ca, unless empty, has the authorities in PEM
// that replace the trusted ones; it must have been checked.
func (d Deps) TLSConfig(ca string) *tls.Config {
	c := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: d.RootCAs}
	if ca != "" {
		c.RootCAs = x509.NewCertPool()
		c.RootCAs.AppendCertsFromPEM([]byte(ca))
	}
	return c
}
