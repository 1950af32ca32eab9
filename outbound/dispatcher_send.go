package outbound

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/panics"
	"github.com/eventhook/eventhook/outbound/schedule"
)

// sendLoop starts the sends that the scheduler allows until ctx ends, and returns when all
// sends in progress have ended. A goroutine that completes a send continues with the next
// delivery for its slot, and ends if there is none.
func (d *Dispatcher) sendLoop(ctx, working context.Context) {
	var senders sync.WaitGroup
	timer := time.NewTimer(0)
	defer timer.Stop()
	for ctx.Err() == nil {
		next, isSet := d.startSends(func(j schedule.Job) { senders.Go(panics.Guarded(func() { d.work(working, j) })) })
		timer.Stop()
		if isSet {
			timer.Reset(next.Sub(d.Now()))
		}
		select {
		case <-ctx.Done():
		case <-d.scheduler.send:
		case <-timer.C:
		}
	}
	senders.Wait()
}

// startSends calls start for each delivery that may be sent now. It returns when it must
// be called again even without a signal, if there is such a time.
func (d *Dispatcher) startSends(start func(schedule.Job)) (next time.Time, isSet bool) {
	now := d.Now()
	d.scheduler.with(func(core *schedule.Scheduler) { next, isSet = core.Advance(now) })
	for {
		var job schedule.Job
		var ok bool
		d.scheduler.with(func(core *schedule.Scheduler) { job, ok = core.Next(now) })
		if !ok {
			return next, isSet
		}
		start(job)
	}
}

// work sends a delivery, and then the following deliveries for the same slot.
func (d *Dispatcher) work(ctx context.Context, j schedule.Job) {
	for ok := true; ok; {
		r, settlement := d.deliver(ctx, j)
		to := j.Destination.ID
		var outage schedule.Outage
		d.scheduler.with(func(core *schedule.Scheduler) { j, ok = core.Finish(j, r); outage = core.Outage(to) })
		if settlement != nil {
			settlement.FailingSince, settlement.CircuitOpen = outage.FailingSince, outage.IsOpen
			_ = d.settlements.Add(settlement, 1, 0) // Add never fails: the queue has no bound, and the committer ends after the senders
		}
	}
}

// deliver makes one attempt. It sends nothing if the destination is not ready, the
// delivery is too old, or the lease would run out during the send. An attempt that fails
// after ctx has ended does not count. If settlement is nil, the scheduler releases the
// delivery.
func (d *Dispatcher) deliver(ctx context.Context, j schedule.Job) (r schedule.Result, settlement *DeliverySettlement) {
	to, err := d.lookUp(ctx, j.Delivery.Destination())
	rules := OutcomeRules{Now: d.Now(), MaxAge: d.config.MaxAge}
	r = schedule.Result{At: rules.Now, Destination: to.Destination}
	if err != nil {
		r.Destination, r.IsGone = j.Destination, isNotFound(err)
		if !r.IsGone {
			d.warn(ctx, "cannot read a destination; its deliveries are released", err)
			r.Backoff = lookUpPause
		}
		return r, nil
	}
	if !to.Ready {
		return r, nil
	}
	if reason := rules.Unsendable(to, j.Delivery); reason != "" {
		r.Settled = true
		return r, rules.Unsent(to, j.Delivery, reason)
	}
	if rules.Now.Add(to.Timeout + d.margin()).After(j.Delivery.Lease.Until) {
		r.IsLate = true
		return r, nil
	}
	if delay, ok := j.Delay(to.ChangedAt, rules.Now); ok {
		d.Observer.Started(j.Delivery, delay)
	}
	a := d.send(ctx, to, j.Delivery)
	rules.Now = d.Now()
	r.At = rules.Now
	if !a.Succeeded() && ctx.Err() != nil {
		return r, nil
	}
	if a.ErrorClass == eventhook.ErrorBusy {
		r.Backoff = busyPause
		return r, nil
	}
	d.Observer.Attempted(a.ErrorClass, a.Duration)
	rules.Chance = d.Chance()
	settlement = rules.Settle(to, j.Delivery, &a)
	r.Settled, r.RetryAt = true, settlement.DueAt
	r.Attempt = new(Observed(a))
	return r, settlement
}

// lookUpPause is the backoff of a destination that cannot be read.
const lookUpPause = time.Second

// busyPause is the backoff of a destination whose tenant has used up its time for
// transforms.
const busyPause = time.Second

// margin returns the part of a lease that is reserved for writing the outcome.
func (d *Dispatcher) margin() time.Duration { return d.Lease / 4 }

// send makes the next attempt at a delivery. A panic of the transport is a failed attempt.
func (d *Dispatcher) send(ctx context.Context, to Destination, x *eventhook.Delivery) (a eventhook.Attempt) {
	began := d.Now()
	defer func() {
		if reason := recover(); reason != nil {
			panics.Count(panics.Delivery)
			d.Log.Error("an attempt panicked and counts as failed", "delivery", x.ID, "destination", to.ID, "trace_id", x.Trace(),
				"panic", fmt.Sprintf("%T", reason), "stack", string(debug.Stack()))
			a = eventhook.Attempt{StartedAt: began, Duration: d.Now().Sub(began), ErrorClass: eventhook.ErrorClosed,
				Error: "the gateway failed to send the delivery because of an internal error"}
		}
	}()
	return to.Transport.Send(ctx, x, x.Attempts+1)
}
