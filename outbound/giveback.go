package outbound

import "context"

// giveBackLoop gives leased deliveries back that cannot be sent here, until
// there are no more and none will come.
func (d *Dispatcher) giveBackLoop(working context.Context, ended <-chan struct{}) {
	ctx, cancel := outlasting(working, lastWrites)
	defer cancel()
	for {
		if batch := d.traffic.takeLeaving(d.config.BatchSize); len(batch) > 0 {
			if !d.insist(ctx, "give deliveries back", batch, func() error { return d.Queue.ReleaseDeliveries(ctx, batch) }) {
				d.Log.Warn("deliveries are given back only when their leases run out", "deliveries", len(batch))
			}
			d.traffic.freed(batch, 0)
			continue
		}
		if ended == nil {
			return
		}
		select {
		case <-ended:
			ended = nil
		case <-d.traffic.left:
		}
	}
}
