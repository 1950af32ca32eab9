package outbound

import (
	"context"
	"sync"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/backoff"
	"github.com/eventhook/eventhook/internal/wake"
)

const (
	abandonBatch    = 1000                   // deliveries of one transaction
	abandonPause    = 100 * time.Millisecond // between two transactions
	abandonInterval = 10 * time.Second       // minimum time before a deleted destination is queued again
	expireInterval  = time.Minute            // minimum time before a destination of agents is queued again
)

// Why deliveries of a deleted destination are dead.
const (
	subscriptionDeleted = "the subscription was deleted"
	targetDeleted       = "the route was deleted, its target no longer has deliveries, or the tenant is closed"
)

// unsentDestinations is a queue of destinations to which nothing is sent by this gateway, and whose
// due deliveries may have to become dead. Safe for concurrent use.
type unsentDestinations struct {
	interval time.Duration // minimum time before a handled destination is queued again
	mu       sync.Mutex
	queue    []eventhook.Destination                 // guarded by mu
	seen     map[eventhook.DestinationID]unsentState // guarded by mu; queued destinations, and destinations handled in the last interval
	added    wake.Signal
}

// unsentState is the progress of one destination.
type unsentState struct {
	isQueued  bool      // or a loop handles it now
	handledAt time.Time // when the last batch was made dead or failed
}

func newUnsentDestinations(interval time.Duration) *unsentDestinations {
	return &unsentDestinations{interval: interval, seen: map[eventhook.DestinationID]unsentState{}, added: wake.New(1)}
}

// isOver reports whether a destination may be queued again.
func (d *unsentDestinations) isOver(a unsentState, now time.Time) bool {
	return !a.isQueued && now.Sub(a.handledAt) > d.interval
}

// add queues a destination, unless it was handled lately.
func (d *unsentDestinations) add(of eventhook.Destination) {
	d.mu.Lock()
	defer d.mu.Unlock()
	id := of.ID()
	if _, known := d.seen[id]; known {
		return
	}
	d.seen[id] = unsentState{isQueued: true}
	d.queue = append(d.queue, of)
	d.added.Notify()
}

// has reports whether a destination is queued, or was handled lately.
func (d *unsentDestinations) has(id eventhook.DestinationID, now time.Time) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	a, known := d.seen[id]
	if known && d.isOver(a, now) {
		delete(d.seen, id)
		return false
	}
	return known
}

// take removes and returns the first destination of the queue.
func (d *unsentDestinations) take() (of eventhook.Destination, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.queue) == 0 {
		return of, false
	}
	of = d.queue[0]
	d.queue = d.queue[1:]
	return of, true
}

// handled records that a batch of a destination was handled. If hasMore is true, the
// destination is queued again at once, behind all other destinations.
func (d *unsentDestinations) handled(of eventhook.Destination, hasMore bool, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.seen[of.ID()] = unsentState{isQueued: hasMore, handledAt: now}
	if hasMore {
		d.queue = append(d.queue, of)
	}
}

// sweep removes destinations that were handled longer than the interval ago.
func (d *unsentDestinations) sweep(now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for id, a := range d.seen {
		if d.isOver(a, now) {
			delete(d.seen, id)
		}
	}
}

// abandonLoop makes due deliveries of deleted destinations dead, one batch per
// destination, round robin.
func (d *Dispatcher) abandonLoop(ctx context.Context) {
	d.handleUnsent(ctx, d.deleted, func(of eventhook.Destination) (hasMore bool) {
		reason := subscriptionDeleted
		if !of.RouteID.IsZero() {
			reason = targetDeleted
		}
		n, err := d.Queue.AbandonDeliveries(ctx, of, reason, abandonBatch)
		if err != nil { // claimLoop finds the destination again after abandonInterval
			d.warn(ctx, "cannot abandon the deliveries of a deleted destination; retrying", err)
		}
		return n == abandonBatch
	})
}

// expireLoop makes deliveries dead that no agent has sent in time, in the same way.
func (d *Dispatcher) expireLoop(ctx context.Context) {
	d.handleUnsent(ctx, d.ofAgents, func(of eventhook.Destination) (hasMore bool) {
		n, err := d.Agents.Expire(ctx, of, abandonBatch)
		if err != nil {
			d.warn(ctx, "cannot end the deliveries that no agent has sent in time; retrying", err)
		}
		return n == abandonBatch
	})
}

// handleUnsent calls handle with each destination of a queue until ctx ends.
func (d *Dispatcher) handleUnsent(ctx context.Context, queue *unsentDestinations, handle func(eventhook.Destination) (hasMore bool)) {
	for ctx.Err() == nil {
		of, ok := queue.take()
		if !ok {
			select {
			case <-ctx.Done():
			case <-queue.added:
			}
			continue
		}
		hasMore := handle(of)
		queue.handled(of, hasMore, d.Now())
		backoff.Sleep(ctx, abandonPause)
	}
}
