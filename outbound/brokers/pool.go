package brokers

import (
	"context"
	"sync"
	"time"

	"github.com/eventhook/eventhook"
)

// Bounds of the connections of an instance.
const (
	maxConnections       = 1000 // open, and as many that are being closed
	maxTenantConnections = 50   // as above, of one tenant
	maxIdle              = 5 * time.Minute
	sweepEvery           = time.Minute
)

// poolKey identifies a connection: tenants share no connections.
type poolKey struct {
	tenant     eventhook.TenantID
	connection string
}

// pool has the open connections. Safe for concurrent use.
type pool struct {
	now func() time.Time

	mu      sync.Mutex
	entries map[poolKey]*pooled
	tenants map[eventhook.TenantID]int // entries of each tenant
	closing map[eventhook.TenantID]int // connections of each tenant that are being closed
	closers sync.WaitGroup             // of closing
}

// pooled is a connection, or the attempt to open it. mu of the pool guards users, idleSince and
// isRetired.
type pooled struct {
	tenant    eventhook.TenantID
	opened    chan struct{} // closed when connection and err are set
	c         Lendable
	err       error
	users     int
	idleSince time.Time
	isRetired bool // another connection has taken its place: the last user closes it
}

func newPool(now func() time.Time) *pool {
	return &pool{now: now, entries: map[poolKey]*pooled{}, tenants: map[eventhook.TenantID]int{}, closing: map[eventhook.TenantID]int{}}
}

var errPoolFull = &Error{eventhook.ErrorBusy, "not sent: the gateway has too many open connections to brokers; the gateway sends the message again"}

var errNotOpened = &Error{eventhook.ErrorClosed, "the gateway failed to open the connection; see its log"}

// get returns the open connection of a key, or opens it. Concurrent calls open it once. The caller
// must call release when it has finished. An open connection is used until it is closed by the other
// side; then the next call opens another.
func (p *pool) get(ctx context.Context, key poolKey, open func(context.Context) (Lendable, error)) (c Lendable, release func(), err error) {
	e, isNew, err := p.reserve(key)
	if err != nil {
		return nil, nil, err
	}
	if isNew {
		p.open(ctx, key, e, open)
	}
	select {
	case <-e.opened:
	case <-ctx.Done():
		if !isNew { // otherwise e.err tells more
			p.release(e)
			return nil, nil, ctx.Err()
		}
	}
	if e.err != nil {
		p.release(e)
		return nil, nil, e.err
	}
	return e.c, func() { p.release(e) }, nil
}

// open opens the connection of a new entry. The entry of a connection that could not be opened, also
// because of a panic, from which the dispatcher recovers, leaves the pool.
func (p *pool) open(ctx context.Context, key poolKey, e *pooled, open func(context.Context) (Lendable, error)) {
	e.err = errNotOpened
	defer func() {
		close(e.opened)
		if e.err != nil {
			p.remove(key, e)
		}
	}()
	e.c, e.err = open(ctx)
}

// reserve returns the entry of a key with one more user. If there is none, it returns a new entry,
// which the caller must open. If the bounds need it, an idle connection leaves the pool and is closed.
func (p *pool) reserve(key poolKey) (e *pooled, isNew bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if e = p.entries[key]; e != nil && !e.isBroken() {
		e.users++
		return e, false, nil
	}
	if e != nil {
		p.retire(key, e)
	}
	if p.closesMany(key.tenant) {
		return nil, false, errPoolFull
	}
	if len(p.entries) >= maxConnections || p.tenants[key.tenant] >= maxTenantConnections {
		idle, found := p.oldestIdle(key.tenant)
		if !found {
			return nil, false, errPoolFull
		}
		p.retire(idle, p.entries[idle])
	}
	e = &pooled{tenant: key.tenant, opened: make(chan struct{}), users: 1}
	p.entries[key] = e
	p.tenants[key.tenant]++
	return e, true, nil
}

// isBroken reports whether the connection was opened and is closed now.
func (e *pooled) isBroken() bool {
	select {
	case <-e.opened:
		return e.err != nil || e.c.IsClosed()
	default:
		return false
	}
}

// oldestIdle returns the connection that has been idle for longest: of the tenant if it has reached
// its own bound, else of any tenant.
func (p *pool) oldestIdle(tenant eventhook.TenantID) (oldest poolKey, found bool) {
	own := p.tenants[tenant] >= maxTenantConnections
	for key, e := range p.entries {
		if e.users > 0 || own && key.tenant != tenant {
			continue
		}
		if !found || e.idleSince.Before(p.entries[oldest].idleSince) {
			oldest, found = key, true
		}
	}
	return oldest, found
}

// retire removes the entry of an idle or a broken connection. Messages that wait for an acknowledgement
// keep it open. If there are none, it is closed.
func (p *pool) retire(key poolKey, e *pooled) {
	p.drop(key)
	if e.isRetired = e.users > 0; !e.isRetired {
		p.close(e)
	}
}

// close closes the connection of a removed entry without waiting for its server, which may belong to
// another tenant than the caller's message.
func (p *pool) close(e *pooled) {
	if e.err != nil {
		return // it was never opened
	}
	p.closing[e.tenant]++
	p.closers.Go(func() {
		e.c.Close()
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.closing[e.tenant]--; p.closing[e.tenant] == 0 {
			delete(p.closing, e.tenant)
		}
	})
}

// closesMany reports whether the servers of a tenant, or of all tenants, keep so many connections
// closing that the tenant opens no further ones.
func (p *pool) closesMany(tenant eventhook.TenantID) bool {
	all := 0
	for _, n := range p.closing {
		all += n
	}
	return all >= maxConnections || p.closing[tenant] >= maxTenantConnections
}

// drop removes an entry.
func (p *pool) drop(key poolKey) {
	delete(p.entries, key)
	if p.tenants[key.tenant]--; p.tenants[key.tenant] == 0 {
		delete(p.tenants, key.tenant)
	}
}

// remove removes an entry unless another has taken its place.
func (p *pool) remove(key poolKey, e *pooled) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.entries[key] == e {
		p.drop(key)
	}
}

func (p *pool) release(e *pooled) {
	p.mu.Lock()
	defer p.mu.Unlock()
	e.users--
	e.idleSince = p.now()
	if e.isRetired && e.users == 0 {
		p.close(e)
	}
}

func (p *pool) size() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.entries)
}

// run closes connections that are idle for maxIdle until ctx ends, and then all.
func (p *pool) run(ctx context.Context) error {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-tick.C:
			p.closeIdle(p.now())
		}
	}
	p.closeIdle(p.now().Add(maxIdle)) // all that are idle now
	p.closers.Wait()
	return nil
}

// closeIdle closes the connections that have been idle for maxIdle at a time.
func (p *pool) closeIdle(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for key, e := range p.entries {
		if e.users == 0 && now.Sub(e.idleSince) >= maxIdle {
			p.retire(key, e)
		}
	}
}
