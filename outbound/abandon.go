package outbound

import (
	"context"
	"sync"
	"time"

	"github.com/eventhook/eventhook"
)

// How deliveries of subscriptions that are gone die.
const (
	abandonAtOnce = 1000
	abandonPause  = 100 * time.Millisecond // between two such transactions
	abandonAgain  = 10 * time.Second       // what is due later is looked for so often
)

// gone are subscriptions that are no more, of which deliveries may be due. Safe
// for concurrent use.
type gone struct {
	mu    sync.Mutex
	line  fifo[eventhook.SubscriptionID]
	since map[eventhook.SubscriptionID]time.Time // also of those that were dealt with of late
	told  bell
}

func newGone() *gone { return &gone{since: map[eventhook.SubscriptionID]time.Time{}, told: newBell()} }

func (g *gone) add(s eventhook.SubscriptionID, now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if _, known := g.since[s]; !known {
		g.since[s] = now
		g.line.push(s)
		g.told.ring()
	}
}

// has reports whether a subscription was dealt with of late, or will be soon.
func (g *gone) has(s eventhook.SubscriptionID, now time.Time) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	at, known := g.since[s]
	if known && !at.IsZero() && now.Sub(at) > abandonAgain {
		delete(g.since, s)
		return false
	}
	return known
}

func (g *gone) take() (s eventhook.SubscriptionID, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.line.len() == 0 {
		return s, false
	}
	s = g.line.pop()
	g.since[s] = time.Time{}
	return s, true
}

// done notes that a part of a subscription's deliveries was dealt with, or all.
func (g *gone) done(s eventhook.SubscriptionID, all bool, now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.since[s] = now; !all {
		g.since[s] = time.Time{}
		g.line.push(s)
	}
}

// abandonLoop has deliveries of subscriptions that are gone die, some of each
// in turn.
func (d *Dispatcher) abandonLoop(ctx context.Context) {
	for ctx.Err() == nil {
		s, ok := d.gone.take()
		if !ok {
			select {
			case <-ctx.Done():
			case <-d.gone.told:
			}
			continue
		}
		n, err := d.Queue.AbandonDeliveries(ctx, eventhook.Destination{SubscriptionID: s}, "the subscription was deleted", abandonAtOnce)
		if err != nil {
			d.warn(ctx, "cannot give up the deliveries of a subscription that was deleted; trying again", err)
		}
		d.gone.done(s, n < abandonAtOnce, d.Now())
		sleep(ctx, abandonPause)
	}
}
