package temporal

import (
	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/outbound"
	"github.com/eventhook/eventhook/outbound/brokers"
	"github.com/eventhook/eventhook/targets"
)

// slots is the maximum number of requests that an instance sends to one target at once. They share a
// connection.
const slots = 64

// Target returns the destination of a compiled target of a tenant. It returns an error if the program was
// built without the client of Temporal.
func Target(b *brokers.Brokers, tenant eventhook.TenantID, t *targets.Temporal) (*outbound.Target, error) {
	transport, err := newTransport(b, tenant, t)
	if err != nil {
		return nil, err
	}
	to := &outbound.Target{Address: t.Address, Timeout: t.Timeout(), Slots: slots, Transport: transport}
	if own, isOwn := t.RetryPolicy(); isOwn {
		to.Retry = &own
	}
	return to, nil
}
