package outbound

import (
	"context"
	"math"
	"slices"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/backoff"
	"github.com/eventhook/eventhook/internal/batch"
	"github.com/eventhook/eventhook/outbound/schedule"
)

// settleWriters is the maximum number of concurrent writes of outcomes. One write at a time
// gives the largest batches. A second one starts only if a full batch is waiting or the
// running write is slow.
const settleWriters = 2

// finalWriteTimeout is the time for settling outcomes and releasing deliveries after
// the last send of a shutdown.
const finalWriteTimeout = 5 * time.Second

// settleBounds returns the bounds of the batches of settlements. The queue has no bound of
// its own: the scheduler stops all sends at Config.UnsettledDeliveries.
func settleBounds(size int) batch.Bounds {
	return batch.Bounds{
		Writers: settleWriters, BatchRows: size, BatchBytes: math.MaxInt, OverlapRows: size, QueueRows: math.MaxInt, QueueBytes: math.MaxInt,
	}
}

// settle writes a batch of outcomes. While the database fails, settle retries until all
// leases of the batch have run out. Deliveries whose outcome is not written are sent
// again.
func (d *Dispatcher) settle(ctx context.Context, batch []*DeliverySettlement) {
	began := d.Now()
	list := make([]*eventhook.Delivery, len(batch))
	for i, s := range batch {
		list[i] = s.Delivery
	}
	defer d.scheduler.with(func(core *schedule.Scheduler) { core.Freed(list, true) })
	var lost []*DeliverySettlement
	if !d.retryWhileLeased(ctx, "settle deliveries", list, func() (err error) {
		lost, err = d.Queue.SettleDeliveries(ctx, batch)
		return err
	}) {
		d.Log.Warn("outcomes were not written before the leases ran out or the shutdown ended; these deliveries are sent again", "deliveries", len(batch))
		return
	}
	if len(lost) > 0 {
		d.Log.Warn("the leases of deliveries ran out before they were settled; they are sent again",
			"deliveries", len(lost), "one_of_them", lost[0].Delivery.ID, "trace_id", lost[0].Delivery.Trace())
		batch = slices.DeleteFunc(slices.Clone(batch), func(s *DeliverySettlement) bool { return slices.Contains(lost, s) })
	}
	d.claimNext(batch)
	d.Observer.SettledDeliveries(batch, len(lost), d.Now().Sub(began))
}

// nextPause is how long claims of ordered deliveries wait for more of them, so that one claim
// gets the next deliveries of many keys.
const nextPause = 5 * time.Millisecond

// claimNext starts the claims of the deliveries that became due because earlier ones of their
// keys have ended: at once if there is one, as for a single busy key.
func (d *Dispatcher) claimNext(batch []*DeliverySettlement) {
	var next map[eventhook.DestinationID]int
	for _, s := range batch {
		if s.NextIsDue {
			if next == nil {
				next = map[eventhook.DestinationID]int{}
			}
			next[s.Delivery.DestinationID]++
		}
	}
	if len(next) == 0 {
		return
	}
	d.scheduler.with(func(core *schedule.Scheduler) {
		now := d.Now()
		for id, n := range next {
			at := now
			if n > 1 {
				at = at.Add(nextPause)
			}
			core.Due(id, at, now)
		}
	})
}

// retryWhileLeased calls try until it succeeds and returns true. If ctx ends or the leases
// of all deliveries run out before that, it returns false. operation names the write in
// the log.
func (d *Dispatcher) retryWhileLeased(ctx context.Context, operation string, list []*eventhook.Delivery, try func() error) bool {
	err := try()
	for pauses := backoff.ForDatabase(); err != nil; {
		if ctx.Err() != nil || !d.isAnyLeased(list) {
			return false
		}
		d.Log.Warn("cannot "+operation+"; retrying", "deliveries", len(list), "error", err)
		if !backoff.Sleep(ctx, pauses.Next()) {
			return false
		}
		err = try()
	}
	return true
}

// isAnyLeased reports whether the lease of at least one delivery has not run out.
func (d *Dispatcher) isAnyLeased(list []*eventhook.Delivery) bool {
	now := d.Now()
	return slices.ContainsFunc(list, func(x *eventhook.Delivery) bool { return !now.After(x.Lease.Until) })
}
