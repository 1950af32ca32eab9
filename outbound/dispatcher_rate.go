package outbound

import (
	"context"
	"time"

	"github.com/eventhook/eventhook/internal/backoff"
	"github.com/eventhook/eventhook/outbound/schedule"
)

// rateLoop reserves send times for destinations with a rate limit. One transaction makes
// all reservations that the scheduler has requested since the last one.
func (d *Dispatcher) rateLoop(ctx context.Context) {
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
			return
		case <-d.scheduler.rate:
		}
		var requests []schedule.RateRequest
		d.scheduler.with(func(core *schedule.Scheduler) { requests = core.RateRequests() })
		if len(requests) == 0 {
			continue
		}
		starts, err := d.Queue.ReserveSends(ctx, sendReservations(requests))
		if err != nil {
			d.warn(ctx, "cannot reserve send times; retrying", err)
			backoff.Sleep(ctx, time.Second)
			starts = nil
		}
		d.scheduler.with(func(core *schedule.Scheduler) { core.GrantRates(requests, starts, d.Now()) })
	}
}

func sendReservations(requests []schedule.RateRequest) []SendReservation {
	list := make([]SendReservation, len(requests))
	for i, r := range requests {
		list[i] = SendReservation{DestinationID: r.Destination.ID, Count: r.Count, PerSecond: r.Destination.PerSecond}
	}
	return list
}
