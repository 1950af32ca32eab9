package outbound

import (
	"context"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/outbound/schedule"
)

// releaseLoop gives back leased deliveries that cannot be sent here, until feeding has
// ended and no more are left. The writes end when writing does.
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

// releaseSome gives a batch back, and reports whether there was any.
func (d *Dispatcher) releaseSome(ctx context.Context) bool {
	var list []*eventhook.Delivery
	d.scheduler.with(func(core *schedule.Scheduler) { list = core.TakeReleased(d.config.BatchSize) })
	if len(list) == 0 {
		return false
	}
	if !d.insist(ctx, "give deliveries back", list, func() error { return d.Queue.ReleaseDeliveries(ctx, list) }) {
		d.Log.Warn("deliveries are given back only when their leases run out", "deliveries", len(list))
	}
	d.scheduler.with(func(core *schedule.Scheduler) { core.Freed(list, false) })
	return true
}
