package outbound

import (
	"context"
	"sync"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/wake"
	"github.com/eventhook/eventhook/outbound/schedule"
)

const (
	sweepInterval = time.Minute
	unusedAge     = 10 * time.Minute // an unused destination is removed from memory, with its circuit breaker
)

// changedTenants collects tenants whose destinations have changed. Safe for concurrent
// use.
type changedTenants struct {
	mu      sync.Mutex
	tenants map[eventhook.TenantID]struct{} // guarded by mu
	added   wake.Signal
}

func newChangedTenants() *changedTenants {
	return &changedTenants{tenants: map[eventhook.TenantID]struct{}{}, added: wake.New(1)}
}

func (c *changedTenants) add(list ...eventhook.TenantID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, id := range list {
		c.tenants[id] = struct{}{}
	}
	c.added.Notify()
}

func (c *changedTenants) take() map[eventhook.TenantID]struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	taken := c.tenants
	c.tenants = map[eventhook.TenantID]struct{}{}
	return taken
}

// reloadLoop looks up destinations again when they may have changed, and removes unused
// destinations from memory.
func (d *Dispatcher) reloadLoop(ctx context.Context) {
	sweep := time.NewTicker(sweepInterval)
	defer sweep.Stop()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-sweep.C:
			now := d.Now()
			d.scheduler.with(func(core *schedule.Scheduler) { core.Sweep(now.Add(-unusedAge)) })
			d.deleted.sweep(now)
			d.ofAgents.sweep(now)
		case <-d.changes.added:
			for tenant := range d.changes.take() {
				d.reloadTenant(ctx, tenant)
			}
			d.claimSignal.Notify()
		}
	}
}

// reloadTenant updates the destinations of a tenant in the scheduler.
func (d *Dispatcher) reloadTenant(ctx context.Context, tenant eventhook.TenantID) {
	var known []schedule.Destination
	d.scheduler.with(func(core *schedule.Scheduler) { known = core.Destinations(tenant) })
	for _, old := range known {
		to, err := d.lookUp(ctx, destinationRef(old.TenantID, old.ID, old.RouteID, old.TargetIndex))
		switch {
		case err == nil:
			d.scheduler.with(func(core *schedule.Scheduler) { core.Update(to.Destination, d.Now()) })
		case isNotFound(err):
			d.scheduler.with(func(core *schedule.Scheduler) { core.Remove(old.ID) })
		default:
			d.warn(ctx, "cannot read a destination that has changed; the next send reads it", err)
		}
	}
}
