package brokers

import (
	"context"
	"net"

	"github.com/eventhook/eventhook"
)

// Lendable is an open connection that one user after another, or many at once, can use.
type Lendable interface {
	// IsClosed reports whether the connection takes no further messages, so that the next message
	// needs another one.
	IsClosed() bool
	Close()
}

// Lend returns the open connection of a tenant with a name, or opens it. Concurrent calls open it once.
// The name must identify the server, the credentials and the type C. The caller must call release when it
// has finished. Targets of other packages share the bounds of Brokers by it.
func Lend[C Lendable](ctx context.Context, from *Brokers, tenant eventhook.TenantID, name string,
	open func(context.Context) (C, error)) (c C, release func(), err error) {
	lent, release, err := from.pool.get(ctx, poolKey{tenant, name}, func(ctx context.Context) (Lendable, error) { return open(ctx) })
	if err != nil {
		return c, nil, err
	}
	return lent.(C), release, nil //nolint:forcetypeassert // the name identifies the type
}

// Dial connects to an address within the address policy. The server may send little more than it is sent.
func (b *Brokers) Dial(ctx context.Context, address string) (net.Conn, error) {
	return b.dial(ctx, address, nil, newCredit(minCredit))
}
