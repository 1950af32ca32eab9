//go:build temporal

package temporal

import (
	"context"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/outbound"
	"github.com/eventhook/eventhook/outbound/brokers"
	"github.com/eventhook/eventhook/targets"
)

// Missing returns why this program cannot send to Temporal, nil if it can.
func Missing() error { return nil }

// transport sends deliveries to one target. It implements outbound.Transport.
type transport struct {
	brokers *brokers.Brokers
	tenant  eventhook.TenantID
	target  *targets.Temporal
}

var _ outbound.Transport = (*transport)(nil)

func newTransport(b *brokers.Brokers, tenant eventhook.TenantID, t *targets.Temporal) (outbound.Transport, error) {
	return &transport{b, tenant, t}, nil
}

// Send implements outbound.Transport.
func (t *transport) Send(ctx context.Context, d *eventhook.Delivery, attempt int) eventhook.Attempt {
	ctx, cancel := context.WithTimeout(ctx, t.target.Timeout())
	defer cancel()
	a := eventhook.Attempt{StartedAt: t.brokers.Now()}
	receipt, err := t.send(ctx, d)
	a.Duration = t.brokers.Now().Sub(a.StartedAt)
	if err != nil {
		a.ErrorClass, a.Error = t.brokers.Describe(ctx, t.target.Address, a.StartedAt, err)
	}
	a.StatusCode, a.Excerpt = receipt.status, eventhook.Truncate(receipt.text, eventhook.MaxExcerpt)
	t.brokers.Trace(d, attempt, t.target.Address, a)
	return a
}

// receipt is what an attempt tells users besides its error: which workflow it is about.
type receipt struct {
	text   string
	status int // a StatusCode of an attempt, 0 without one
}

func (t *transport) send(ctx context.Context, d *eventhook.Delivery) (receipt, error) {
	q, err := t.target.Compose(d)
	if err != nil {
		return receipt{}, brokers.Errorf(eventhook.ErrorRefused, "%s", err)
	}
	const maxArgument = 4<<20 - 64<<10 // a frontend of Temporal takes requests of up to 4 MiB
	if len(q.Argument) > maxArgument {
		return receipt{}, brokers.Errorf(eventhook.ErrorRefused, "the input has %d bytes: Temporal takes at most 4 MiB", len(q.Argument))
	}
	c, release, err := brokers.Lend(ctx, t.brokers, t.tenant, t.target.Connection(), t.open)
	if err != nil {
		return receipt{}, err
	}
	defer release()
	if q.Start != nil {
		return c.start(ctx, t.target, q)
	}
	return c.signal(ctx, t.target, q)
}
