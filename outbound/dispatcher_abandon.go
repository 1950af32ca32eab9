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
	abandonInterval = 10 * time.Second       // minimum time before a handled destination is queued again
)

// Why deliveries of a deleted destination are dead.
const (
	subscriptionDeleted = "the subscription was deleted"
	targetDeleted       = "the route was deleted, its target is no longer an http target, or the tenant is closed"
)

// deletedDestinations holds destinations that were deleted and may still have due
// deliveries. Safe for concurrent use.
type deletedDestinations struct {
	mu    sync.Mutex
	queue []eventhook.Destination                 // guarded by mu
	seen  map[eventhook.DestinationID]abandonment // guarded by mu; queued destinations, and destinations handled in the last abandonInterval
	added wake.Signal
}

// abandonment is the progress of one deleted destination.
type abandonment struct {
	isQueued  bool      // or abandonLoop handles it now
	handledAt time.Time // when the last batch was made dead or failed
}

// isOver reports whether the destination may be queued again.
func (a abandonment) isOver(now time.Time) bool {
	return !a.isQueued && now.Sub(a.handledAt) > abandonInterval
}

func newDeletedDestinations() *deletedDestinations {
	return &deletedDestinations{seen: map[eventhook.DestinationID]abandonment{}, added: wake.New(1)}
}

// add queues a destination, unless it was handled lately.
func (d *deletedDestinations) add(of eventhook.Destination) {
	d.mu.Lock()
	defer d.mu.Unlock()
	id := of.ID()
	if _, known := d.seen[id]; known {
		return
	}
	d.seen[id] = abandonment{isQueued: true}
	d.queue = append(d.queue, of)
	d.added.Notify()
}

// has reports whether a destination is queued, or was handled lately.
func (d *deletedDestinations) has(id eventhook.DestinationID, now time.Time) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	a, known := d.seen[id]
	if known && a.isOver(now) {
		delete(d.seen, id)
		return false
	}
	return known
}

// take removes and returns the first destination of the queue.
func (d *deletedDestinations) take() (of eventhook.Destination, ok bool) {
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
func (d *deletedDestinations) handled(of eventhook.Destination, hasMore bool, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.seen[of.ID()] = abandonment{isQueued: hasMore, handledAt: now}
	if hasMore {
		d.queue = append(d.queue, of)
	}
}

// sweep removes destinations that were handled longer than abandonInterval ago.
func (d *deletedDestinations) sweep(now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for id, a := range d.seen {
		if a.isOver(now) {
			delete(d.seen, id)
		}
	}
}

// abandonLoop makes due deliveries of deleted destinations dead, one batch per
// destination, round robin.
func (d *Dispatcher) abandonLoop(ctx context.Context) {
	for ctx.Err() == nil {
		of, ok := d.deleted.take()
		if !ok {
			select {
			case <-ctx.Done():
			case <-d.deleted.added:
			}
			continue
		}
		reason := subscriptionDeleted
		if !of.RouteID.IsZero() {
			reason = targetDeleted
		}
		n, err := d.Queue.AbandonDeliveries(ctx, of, reason, abandonBatch)
		if err != nil { // claimLoop finds the destination again after abandonInterval
			d.warn(ctx, "cannot abandon the deliveries of a deleted destination; retrying", err)
		}
		d.deleted.handled(of, n == abandonBatch, d.Now())
		backoff.Sleep(ctx, abandonPause)
	}
}
