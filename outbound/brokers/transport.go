package brokers

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/outbound"
	"github.com/eventhook/eventhook/targets"
)

// transport sends deliveries to one target. It implements outbound.Transport.
type transport struct {
	brokers *Brokers
	message *targets.Message
	key     poolKey
	open    func(ctx context.Context) (Connection, error)
}

var _ outbound.Transport = (*transport)(nil)

// Send implements outbound.Transport.
func (t *transport) Send(ctx context.Context, d *eventhook.Delivery, attempt int) eventhook.Attempt {
	ctx, cancel := context.WithTimeout(ctx, t.message.Timeout())
	defer cancel()
	a := eventhook.Attempt{StartedAt: t.brokers.Now()}
	receipt, err := t.publish(ctx, t.message.Compose(d))
	a.Duration = t.brokers.Now().Sub(a.StartedAt)
	if err != nil {
		a.ErrorClass, a.Error = t.brokers.Describe(ctx, t.message.Broker().Server(), a.StartedAt, err)
	}
	a.Excerpt = eventhook.Truncate(receipt, eventhook.MaxExcerpt)
	t.brokers.Trace(d, attempt, t.message.Broker().Server(), a)
	return a
}

func (t *transport) publish(ctx context.Context, m targets.CloudEvent) (receipt string, err error) {
	c, release, err := Lend(ctx, t.brokers, t.key.tenant, t.key.connection, t.open)
	if err != nil {
		return "", err
	}
	defer release()
	return c.Publish(ctx, t.message.Broker(), m)
}

// Trace notifies the Tracer, if there is one, of an attempt that counts: the dispatcher makes an attempt of the class
// busy again.
func (d Deps) Trace(x *eventhook.Delivery, attempt int, server string, a eventhook.Attempt) {
	if d.Tracer != nil && a.ErrorClass != eventhook.ErrorBusy {
		d.Tracer.Sent(x, attempt, server, a)
	}
}

// Describe returns the class and the message of a failed attempt to send to a host, which began at a
// time.
func (d Deps) Describe(ctx context.Context, host string, since time.Time, err error) (eventhook.ErrorClass, string) {
	if f, ok := errors.AsType[*Error](err); ok {
		return f.Class, f.Text
	}
	if isLate(err) {
		return eventhook.ErrorTimeout, "no acknowledgement from " + host + " in time"
	}
	err = d.Dialer.Explain(ctx, host, since, err)
	var classed interface{ Class() string }
	if errors.As(err, &classed) {
		return eventhook.ErrorClass(classed.Class()), err.Error()
	}
	return eventhook.ErrorClosed, err.Error()
}

// isLate reports whether the time of an attempt ended after the connection to the server was made.
func isLate(err error) bool {
	var network *net.OpError
	if errors.As(err, &network) && network.Op == "dial" {
		return false
	}
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}
