package outbound

import (
	"context"
	"time"

	"github.com/eventhook/eventhook/internal/backoff"
	"github.com/eventhook/eventhook/outbound/schedule"
)

// rateLoop reserves send times for destinations with a rate limit, for many of them in
// one transaction.
func (d *Dispatcher) rateLoop(ctx context.Context) {
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
			return
		case <-d.scheduler.rate:
		}
		var asked []schedule.RateRequest
		d.scheduler.with(func(core *schedule.Scheduler) { asked = core.RateRequests() })
		if len(asked) == 0 {
			continue
		}
		starts, err := d.Queue.ReserveSends(ctx, paceRequests(asked))
		if err != nil {
			d.warn(ctx, "cannot reserve times to send at; trying again", err)
			backoff.Sleep(ctx, time.Second)
			starts = nil
		}
		d.scheduler.with(func(core *schedule.Scheduler) { core.GrantRates(asked, starts, d.Now()) })
	}
}

func paceRequests(asked []schedule.RateRequest) []SendReservation {
	list := make([]SendReservation, len(asked))
	for i, r := range asked {
		list[i] = SendReservation{DestinationID: r.Destination.ID, Count: r.Count, PerSecond: r.Destination.PerSecond}
	}
	return list
}
