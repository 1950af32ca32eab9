package outbound

import (
	"context"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/outbound/schedule"
)

// releaseLoop releases leased deliveries that this instance cannot send now. It returns
// when the context feeding has ended and no delivery is left to release. writing is the
// context of the writes.
func (d *Dispatcher) releaseLoop(feeding, writing context.Context) {
	for {
		if d.releaseSome(writing) {
			continue
		}
		select {
		case <-feeding.Done():
			for d.releaseSome(writing) {
			}
			return
		case <-d.scheduler.release:
		}
	}
}

// releaseSome releases a batch of deliveries, and reports whether there was one.
func (d *Dispatcher) releaseSome(ctx context.Context) bool {
	var list []*eventhook.Delivery
	d.scheduler.with(func(core *schedule.Scheduler) { list = core.TakeReleased(d.config.BatchSize) })
	if len(list) == 0 {
		return false
	}
	if !d.retryWhileLeased(ctx, "release deliveries", list, func() error { return d.Queue.ReleaseDeliveries(ctx, list) }) {
		d.Log.Warn("deliveries could not be released; they are due again when their leases run out", "deliveries", len(list))
	}
	d.scheduler.with(func(core *schedule.Scheduler) { core.Freed(list, false) })
	return true
}
