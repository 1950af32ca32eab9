package outbound

import (
	"context"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/lifetime"
	"github.com/eventhook/eventhook/outbound/schedule"
)

const (
	destinationsInPage = 256
	pagesInRound       = 16                    // the next round continues after these pages
	minGap             = 10 * time.Millisecond // between two rounds
)

// claimLoop leases due deliveries from the database: retries, deliveries that no
// instance had memory for, and deliveries of instances that ended. It starts a round when
// it is woken and at every PollInterval. Between two rounds it pauses at least as long as
// the last round took, up to PollInterval. During the pause it claims deliveries of
// destinations with a known backlog.
func (d *Dispatcher) claimLoop(ctx context.Context) {
	var after eventhook.DestinationID
	timer := time.NewTimer(0)
	defer timer.Stop()
	for ctx.Err() == nil {
		notify := d.Queue.DeliveriesWake()
		began := d.Now()
		var found bool
		after, found = d.round(ctx, after)
		gap := min(max(d.Now().Sub(began), minGap), d.config.PollInterval)
		if found {
			notify = nil
			timer.Reset(gap)
		} else {
			timer.Reset(d.config.PollInterval)
		}
		d.pauseRounds(ctx, notify, timer, d.Now().Add(gap))
	}
}

// pauseRounds returns when the timer fires, or after a signal, but not before earliest. If
// notify is nil, signals are ignored.
func (d *Dispatcher) pauseRounds(ctx context.Context, notify <-chan struct{}, timer *time.Timer, earliest time.Time) {
	local, memory := d.claimSignal, d.scheduler.memory
	if notify == nil {
		local, memory = nil, nil
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
			return
		case <-notify:
		case <-local:
		case <-memory:
		case <-d.scheduler.claim:
			d.claimBacklogs(ctx)
			continue
		}
		notify, local, memory = nil, nil, nil
		timer.Reset(max(0, earliest.Sub(d.Now())))
	}
}

// round lists destinations with due deliveries, after a cursor, and claims deliveries of
// the destinations for which the scheduler has memory. It returns the cursor for the next
// round, and whether a delivery was claimed.
func (d *Dispatcher) round(ctx context.Context, after eventhook.DestinationID) (next eventhook.DestinationID, found bool) {
	for range pagesInRound {
		page, err := d.Queue.DueDestinations(ctx, after, destinationsInPage)
		if err != nil {
			d.warn(ctx, "cannot list destinations with due deliveries; retrying", err)
			return after, false
		}
		found = d.claimPage(ctx, page) || found
		if len(page) < destinationsInPage {
			return eventhook.DestinationID{}, found
		}
		after = page[len(page)-1].DestinationID
	}
	return after, found
}

// warn logs an error, unless ctx has ended, which may be its cause.
func (d *Dispatcher) warn(ctx context.Context, message string, err error) {
	if ctx.Err() == nil {
		d.Log.Warn(message, "error", err)
	}
}

// claimPage claims deliveries of the destinations of a page for which the scheduler has
// memory, and reports whether a delivery was claimed. If a destination cannot be read, the
// remaining destinations of its tenant are skipped.
func (d *Dispatcher) claimPage(ctx context.Context, page []DueDestination) (found bool) {
	c, unread := d.newClaims(), map[eventhook.TenantID]bool{}
	for _, due := range page {
		if unread[due.TenantID] || !d.isClaimable(due.DestinationID) {
			continue
		}
		to, err := d.lookUp(ctx, due.Destination())
		switch {
		case isNotFound(err):
			d.deleted.add(due.Destination())
		case err != nil:
			d.warn(ctx, "cannot read a destination; retrying", err)
			unread[due.TenantID] = true
		case to.Ready:
			c.add(ctx, to.Destination)
		default:
			if to.ForAgents && !d.ofAgents.has(due.DestinationID, d.Now()) {
				d.ofAgents.add(due.Destination())
			}
			d.scheduler.with(func(core *schedule.Scheduler) { core.Update(to.Destination, d.Now()) })
		}
	}
	return c.submit(ctx) || c.found
}

// isClaimable reports whether due deliveries of a destination should be claimed.
func (d *Dispatcher) isClaimable(id eventhook.DestinationID) (ok bool) {
	now := d.Now()
	d.scheduler.with(func(core *schedule.Scheduler) { ok = core.ShouldClaim(id, now) })
	return ok && !d.deleted.has(id, now)
}

// claimBacklogs claims for destinations with a known backlog.
func (d *Dispatcher) claimBacklogs(ctx context.Context) {
	c := d.newClaims()
	for ctx.Err() == nil {
		var to schedule.Destination
		var ok bool
		d.scheduler.with(func(core *schedule.Scheduler) { to, ok = core.NextClaim() })
		if !ok {
			break
		}
		c.add(ctx, to)
	}
	c.submit(ctx)
}

// claims collects claims, so that one transaction makes many of them.
type claims struct {
	*Dispatcher
	list  []Claim
	index map[eventhook.DestinationID]int // of each destination's claim in list
	max   int                             // sum of the Max of all claims in list
	found bool                            // a delivery was claimed
}

func (d *Dispatcher) newClaims() *claims {
	return &claims{Dispatcher: d, index: map[eventhook.DestinationID]int{}}
}

// add reserves memory for a claim. If the destination has a claim in the list already,
// that claim grows. A probe claims deliveries that were tried before. Otherwise each probe
// of a large backlog would try another delivery, no delivery would use up its retries, and
// a dead destination would never be disabled.
func (c *claims) add(ctx context.Context, to schedule.Destination) {
	var n int
	var isProbe bool
	c.scheduler.with(func(core *schedule.Scheduler) { n, isProbe = core.ReserveClaim(to, c.Now()) })
	if n == 0 {
		return
	}
	if i, ok := c.index[to.ID]; ok {
		c.list[i].Max += n
		c.max += n
		return
	}
	c.index[to.ID] = len(c.list)
	c.list = append(c.list, Claim{DestinationID: to.ID, Max: n, Lease: c.Lease + to.Timeout, TriedFirst: isProbe})
	if c.max += n; c.max >= c.config.BatchSize {
		c.submit(ctx)
	}
}

// submit passes the collected claims to the database, and reports whether a delivery was
// claimed.
func (c *claims) submit(ctx context.Context) bool {
	if len(c.list) == 0 {
		return false
	}
	// A claim is completed at a shutdown, so that its deliveries can be released.
	finishing, cancel := lifetime.Extend(ctx, finalWriteTimeout)
	defer cancel()
	list, err := c.Queue.ClaimDeliveries(finishing, c.list)
	if err != nil {
		c.warn(ctx, "cannot claim deliveries; retrying", err)
		list = nil
	}
	got := map[eventhook.DestinationID]int{}
	for _, x := range list {
		got[x.DestinationID]++
	}
	c.scheduler.with(func(core *schedule.Scheduler) {
		now := c.Now()
		core.Offer(list, now)
		for _, claim := range c.list {
			core.Claimed(claim.DestinationID, claim.Max, got[claim.DestinationID], now)
		}
	})
	c.list, c.max = nil, 0
	clear(c.index)
	c.found = c.found || len(list) > 0
	return len(list) > 0
}
