package outbound

import (
	"context"
	"sync"
	"time"

	"github.com/eventhook/eventhook"
)

// How lanes are kept.
const (
	sweepEvery = time.Minute
	laneAge    = 10 * time.Minute // an unused lane is forgotten, with what it has learned
)

// changes are tenants whose subscriptions have changed. Safe for concurrent use.
type changes struct {
	mu      sync.Mutex
	tenants map[eventhook.TenantID]struct{}
	told    bell
}

func (c *changes) tell(list ...eventhook.TenantID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.tenants == nil {
		c.tenants = map[eventhook.TenantID]struct{}{}
	}
	for _, id := range list {
		c.tenants[id] = struct{}{}
	}
	c.told.ring()
}

func (c *changes) take() map[eventhook.TenantID]struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	taken := c.tenants
	c.tenants = nil
	return taken
}

// lookLoop looks up the subscriptions of lanes when they may have changed, and
// forgets lanes that nobody uses.
func (d *Dispatcher) lookLoop(ctx context.Context) {
	sweep := time.NewTicker(sweepEvery)
	defer sweep.Stop()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-sweep.C:
			d.traffic.sweep(d.Now().Add(-laneAge))
			d.gone.sweep(d.Now())
		case <-d.changes.told:
			for tenant := range d.changes.take() {
				d.lookAgain(ctx, tenant)
			}
			d.look.ring()
		}
	}
}

func (d *Dispatcher) lookAgain(ctx context.Context, tenant eventhook.TenantID) {
	for _, id := range d.traffic.lanesOf(tenant) {
		s, err := d.Directory.Subscription(ctx, tenant, id)
		switch {
		case err == nil:
			d.traffic.tell(s, d.Now())
		case isNotFound(err):
			d.traffic.drop(id)
		default:
			d.warn(ctx, "cannot read a subscription that has changed; its deliveries look again before they are sent", err)
		}
	}
}

func (t *traffic) lanesOf(id eventhook.TenantID) (list []eventhook.SubscriptionID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if of := t.tenants[id]; of != nil {
		for l := range of.lanes {
			list = append(list, l.id)
		}
	}
	return list
}

func (t *traffic) allTenants() (list []eventhook.TenantID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for id := range t.tenants {
		list = append(list, id)
	}
	return list
}

// tell has a lane, if there is one, go by what its subscription says now.
func (t *traffic) tell(s *eventhook.Subscription, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if l := t.lanes[s.ID]; l != nil {
		t.follow(l, s)
		t.refresh(l, now)
	}
}

// drop gives back what waits for a subscription that is gone.
func (t *traffic) drop(id eventhook.SubscriptionID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if l := t.lanes[id]; l != nil {
		t.withdraw(l)
		l.isOwed = false
	}
}

// sweep forgets lanes that hold nothing and were not used since.
func (t *traffic) sweep(since time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for id, l := range t.lanes {
		if l.held > 0 || l.usedAt.After(since) {
			continue
		}
		t.countOpen(l.state, BreakerClosed)
		t.alarms.unset(&l.alarm)
		delete(t.lanes, id)
		if delete(l.tenant.lanes, l); len(l.tenant.lanes) == 0 {
			delete(t.tenants, l.tenant.id)
		}
	}
}

func (g *gone) sweep(now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for s, at := range g.since {
		if !at.IsZero() && now.Sub(at) > abandonAgain {
			delete(g.since, s)
		}
	}
}

func (t *traffic) standing() Standing {
	t.mu.Lock()
	defer t.mu.Unlock()
	return Standing{Waiting: t.waiting, Sending: t.running[fresh] + t.running[again], Unsettled: t.unsettled, OpenLanes: t.open}
}

func (t *traffic) state(s eventhook.SubscriptionID) (LaneState, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	l := t.lanes[s]
	if l == nil {
		return LaneState{}, false
	}
	return LaneState{Breaker: l.state, AtOnce: l.atOnce(), Waiting: l.waiting(), Sending: l.running, RestUntil: l.restUntil}, true
}
