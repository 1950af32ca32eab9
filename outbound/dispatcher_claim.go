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
	pagesInRound       = 16                    // the next round continues after them
	minGap             = 10 * time.Millisecond // between two rounds
)

// claimLoop leases due deliveries from the database: retries, deliveries that no
// instance kept in memory, and deliveries of instances that ended. It looks for them
// when it is woken and at every PollInterval, at most half of the time. In between it
// claims for destinations whose backlog is known.
func (d *Dispatcher) claimLoop(ctx context.Context) {
	var after eventhook.DestinationID
	timer := time.NewTimer(0)
	defer timer.Stop()
	for ctx.Err() == nil {
		wake := d.Queue.DeliveriesWake()
		began := d.Now()
		var found bool
		after, found = d.round(ctx, after)
		gap := min(max(d.Now().Sub(began), minGap), d.config.PollInterval)
		if found {
			wake = nil
			timer.Reset(gap)
		} else {
			timer.Reset(d.config.PollInterval)
		}
		d.pauseRounds(ctx, wake, timer, d.Now().Add(gap))
	}
}

// pauseRounds returns when the timer fires, or when it is woken, but not before the
// earliest time.
func (d *Dispatcher) pauseRounds(ctx context.Context, wake <-chan struct{}, timer *time.Timer, earliest time.Time) {
	look, memory := d.look, d.scheduler.memory
	if wake == nil {
		look, memory = nil, nil
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
			return
		case <-wake:
		case <-look:
		case <-memory:
		case <-d.scheduler.claim:
			d.claimBacklogs(ctx)
			continue
		}
		wake, look, memory = nil, nil, nil
		timer.Reset(max(0, earliest.Sub(d.Now())))
	}
}

// round goes through destinations with due deliveries, after a cursor, and claims for
// the ones with memory. It returns the next cursor, and whether it claimed anything.
func (d *Dispatcher) round(ctx context.Context, after eventhook.DestinationID) (next eventhook.DestinationID, found bool) {
	for range pagesInRound {
		page, err := d.Queue.DueDestinations(ctx, after, destinationsInPage)
		if err != nil {
			d.warn(ctx, "cannot look for deliveries; trying again", err)
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

func (d *Dispatcher) warn(ctx context.Context, what string, err error) {
	if ctx.Err() == nil {
		d.Log.Warn(what, "error", err)
	}
}

// claimPage claims for the destinations of a page that have memory. If a destination
// cannot be read, the other destinations of its tenant are skipped.
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
			d.warn(ctx, "cannot read a destination; trying again", err)
			unread[due.TenantID] = true
		case to.Ready:
			c.add(ctx, to.Destination)
		default:
			d.scheduler.with(func(core *schedule.Scheduler) { core.Update(to.Destination, d.Now()) })
		}
	}
	return c.do(ctx) || c.found
}

// isClaimable reports whether due deliveries of a destination should be claimed.
func (d *Dispatcher) isClaimable(id eventhook.DestinationID) (ok bool) {
	now := d.Now()
	d.scheduler.with(func(core *schedule.Scheduler) { ok = core.Due(id, now) })
	return ok && !d.deleted.has(id, now)
}

// claimBacklogs claims for destinations that are known to have more due deliveries.
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
	c.do(ctx)
}

// claims gathers claims, so that one transaction makes many.
type claims struct {
	*Dispatcher
	list  []Claim
	at    map[eventhook.DestinationID]int // index of each destination's claim in list
	asked int                             // deliveries
	found bool
}

func (d *Dispatcher) newClaims() *claims {
	return &claims{Dispatcher: d, at: map[eventhook.DestinationID]int{}}
}

// add reserves memory for a claim. A destination whose sends end meanwhile may ask again
// before the claim is made: its claim grows. A probe asks for deliveries that were tried
// before: otherwise each probe of a large backlog would try another delivery, no delivery would
// use up its retries, and a dead destination would never be disabled.
func (c *claims) add(ctx context.Context, to schedule.Destination) {
	var n int
	var isProbe bool
	c.scheduler.with(func(core *schedule.Scheduler) { n, isProbe = core.ReserveClaim(to, c.Now()) })
	if n == 0 {
		return
	}
	if at, again := c.at[to.ID]; again {
		c.list[at].Max += n
		c.asked += n
		return
	}
	c.at[to.ID] = len(c.list)
	c.list = append(c.list, Claim{DestinationID: to.ID, Max: n, Lease: c.Lease + to.Timeout, TriedFirst: isProbe})
	if c.asked += n; c.asked >= c.config.BatchSize {
		c.do(ctx)
	}
}

// do makes the gathered claims, and reports whether they got anything.
func (c *claims) do(ctx context.Context) bool {
	if len(c.list) == 0 {
		return false
	}
	// At a stop the claim is completed: deliveries that are leased are given back.
	finishing, cancel := lifetime.Extend(ctx, lastWrites)
	defer cancel()
	list, err := c.Queue.ClaimDeliveries(finishing, c.list)
	if err != nil {
		c.warn(ctx, "cannot claim deliveries; trying again", err)
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
	c.list, c.asked = nil, 0
	clear(c.at)
	c.found = c.found || len(list) > 0
	return len(list) > 0
}
