package outbound

import (
	"context"
	"time"

	"github.com/eventhook/eventhook"
)

// How the database is looked through for lanes with something due.
const (
	lanesInPage  = 256
	pagesInRound = 16                    // then others have their turn, and the next round goes on from there
	leastGap     = 10 * time.Millisecond // between two rounds
)

// claimLoop leases what is due in the database: retries, what no instance has
// kept in memory, and what others have left behind. It looks when it is woken
// and now and then, no more than half of the time, and in between has lanes go
// on that know of more.
func (d *Dispatcher) claimLoop(ctx context.Context) {
	var after eventhook.SubscriptionID
	timer := time.NewTimer(0)
	defer timer.Stop()
	for ctx.Err() == nil {
		wake := d.Queue.DeliveriesWake()
		began := d.Now()
		var found bool
		after, found = d.round(ctx, after)
		gap := min(max(d.Now().Sub(began), leastGap), d.config.PollInterval)
		if found {
			wake = nil
			timer.Reset(gap)
		} else {
			timer.Reset(d.config.PollInterval)
		}
		d.pauseClaims(ctx, wake, timer, d.Now().Add(gap))
	}
}

// pauseClaims returns when the timer goes off; or sooner when it is woken, but
// not before a moment.
func (d *Dispatcher) pauseClaims(ctx context.Context, wake <-chan struct{}, timer *time.Timer, earliest time.Time) {
	look, roomy := d.look, d.traffic.roomy
	if wake == nil {
		look, roomy = nil, nil
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
			return
		case <-wake:
		case <-look:
		case <-roomy:
		case <-d.traffic.starving:
			d.claimOwed(ctx)
			continue
		}
		wake, look, roomy = nil, nil, nil
		timer.Reset(max(0, earliest.Sub(d.Now())))
	}
}

// round goes over lanes with something due, after one, and claims for those
// that have room. It tells from where to go on, and whether it found anything.
func (d *Dispatcher) round(ctx context.Context, after eventhook.SubscriptionID) (next eventhook.SubscriptionID, found bool) {
	for range pagesInRound {
		page, err := d.Queue.DueLanes(ctx, after, lanesInPage)
		if err != nil {
			d.warn(ctx, "cannot look for deliveries; trying again", err)
			return after, false
		}
		found = d.claimPage(ctx, page) || found
		if len(page) < lanesInPage {
			return eventhook.SubscriptionID{}, found
		}
		after = page[len(page)-1].SubscriptionID
	}
	return after, found
}

func (d *Dispatcher) warn(ctx context.Context, what string, err error) {
	if ctx.Err() == nil {
		d.Log.Warn(what, "error", err)
	}
}

// claimPage claims for those lanes of a page that have room. A tenant whose
// subscriptions cannot be read now holds up nobody else's.
func (d *Dispatcher) claimPage(ctx context.Context, page []Lane) (found bool) {
	c, unread := d.newClaiming(), map[eventhook.TenantID]bool{}
	for _, due := range page {
		if unread[due.TenantID] || d.traffic.isFull(due.SubscriptionID, d.Now()) || d.gone.has(due.SubscriptionID, d.Now()) {
			continue
		}
		s, err := d.Directory.Subscription(ctx, due.TenantID, due.SubscriptionID)
		switch {
		case isNotFound(err):
			d.gone.add(due.SubscriptionID, d.Now())
		case err != nil:
			d.warn(ctx, "cannot read a subscription; trying again", err)
			unread[due.TenantID] = true
		case isSendable(s):
			c.add(ctx, s)
		default:
			d.traffic.tell(s, d.Now())
		}
	}
	return c.do(ctx) || c.found
}

// claimOwed claims for lanes that know of more in the database.
func (d *Dispatcher) claimOwed(ctx context.Context) {
	c := d.newClaiming()
	for s, ok := d.traffic.takeHungry(); ok && ctx.Err() == nil; s, ok = d.traffic.takeHungry() {
		c.add(ctx, s)
	}
	c.do(ctx)
}

// claiming gathers claims, so that few transactions make many. A lane whose sends
// end meanwhile may ask again before its first claim is made: it has one claim.
type claiming struct {
	*Dispatcher
	claims []LaneClaim
	at     map[eventhook.SubscriptionID]int // where the claim of each is
	asked  int
	found  bool
}

func (d *Dispatcher) newClaiming() *claiming {
	return &claiming{Dispatcher: d, at: map[eventhook.SubscriptionID]int{}}
}

func (c *claiming) add(ctx context.Context, s *eventhook.Subscription) {
	n, isProbe := c.traffic.reserveOwed(s, c.Now())
	if n == 0 {
		return
	}
	if at, asksAgain := c.at[s.ID]; asksAgain {
		c.claims[at].Max += n
		c.asked += n
		return
	}
	// Probes that each tried another delivery would bring none of a large backlog
	// to its end, and never disable the subscription.
	c.at[s.ID] = len(c.claims)
	c.claims = append(c.claims, LaneClaim{SubscriptionID: s.ID, Max: n, Lease: c.Lease + s.Timeout(), TriedFirst: isProbe})
	if c.asked += n; c.asked >= c.config.BatchSize {
		c.do(ctx)
	}
}

// do claims what was gathered, and reports whether it found anything. The
// deliveries wait for their turn then.
func (c *claiming) do(ctx context.Context) bool {
	if len(c.claims) == 0 {
		return false
	}
	// What is leased is given back at a stop, and not left to its lease.
	finishing, cancel := outlasting(ctx, lastWrites)
	defer cancel()
	list, err := c.Queue.ClaimDeliveries(finishing, c.claims)
	if err != nil {
		c.warn(ctx, "cannot claim deliveries; trying again", err)
		list = nil
	}
	got := map[eventhook.SubscriptionID]int{}
	for _, x := range list {
		got[x.SubscriptionID]++
	}
	c.traffic.put(list, c.Now())
	for _, claim := range c.claims {
		c.traffic.claimed(claim.SubscriptionID, claim.Max, got[claim.SubscriptionID], c.Now())
	}
	c.claims, c.asked = nil, 0
	clear(c.at)
	c.found = c.found || len(list) > 0
	return len(list) > 0
}
