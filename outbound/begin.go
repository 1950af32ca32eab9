package outbound

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/eventhook/eventhook"
)

// sendLoop has deliveries sent, each in its turn, until ctx ends, and returns
// when those under way have ended, too. Whoever has sent one goes on with the
// next; nobody waits for work.
func (d *Dispatcher) sendLoop(ctx, working context.Context) {
	var senders sync.WaitGroup
	timer := time.NewTimer(0)
	defer timer.Stop()
	for ctx.Err() == nil {
		now := d.Now()
		next, isSet := d.traffic.ring(now)
		for j, ok := d.traffic.take(now); ok; j, ok = d.traffic.take(now) {
			senders.Go(func() { d.work(working, j) })
		}
		timer.Stop()
		if isSet {
			timer.Reset(next.Sub(d.Now()))
		}
		select {
		case <-ctx.Done():
		case <-d.traffic.moved:
		case <-timer.C:
		}
	}
	senders.Wait()
}

func (d *Dispatcher) work(ctx context.Context, j job) {
	for ok := true; ok; {
		r := d.deliver(ctx, j)
		if r.settlement != nil {
			d.outbox.add(r.settlement)
		}
		j, ok = d.traffic.end(j, r)
	}
}

// deliver makes an attempt, unless the subscription is not sent to any more,
// the delivery is too old, or its lease leaves no time. An attempt that is cut
// off by the end of ctx counts as not made.
func (d *Dispatcher) deliver(ctx context.Context, j job) (r result) {
	r.sub, r.isGone = d.current(ctx, j)
	by := judgement{now: d.Now(), maxAge: d.config.MaxAge}
	r.at = by.now
	if r.isGone || !isSendable(r.sub) {
		return r
	}
	if why := by.unsendable(j.delivery); why != "" {
		r.settlement = unsent(r.sub, j.delivery, why)
		return r
	}
	if by.now.Add(r.sub.Timeout() + d.margin()).After(j.delivery.Lease.Until) {
		r.isLate = true
		return r
	}
	a := d.send(ctx, Sending{Subscription: r.sub, Delivery: j.delivery, Attempt: j.delivery.Attempts + 1})
	by.now = d.Now()
	r.at = by.now
	if !a.Succeeded() && ctx.Err() != nil {
		return r
	}
	d.Observer.Attempted(a.ErrorClass, a.Duration)
	by.chance = d.Chance()
	r.attempt, r.settlement = &a, by.settle(r.sub, j.delivery, &a)
	return r
}

// margin is the part of a lease that is left for the outcome to be written.
func (d *Dispatcher) margin() time.Duration {
	const part = 4
	return d.Lease / part
}

// current is the subscription as it is now; or, when that cannot be found out,
// as it was. It tells if there is none any more.
func (d *Dispatcher) current(ctx context.Context, j job) (now *eventhook.Subscription, isGone bool) {
	s, err := d.Directory.Subscription(ctx, j.sub.TenantID, j.sub.ID)
	switch {
	case err == nil:
		return s, false
	case isNotFound(err):
		return j.sub, true
	}
	return j.sub, false
}

func isNotFound(err error) bool {
	e, ok := errors.AsType[*eventhook.Error](err)
	return ok && e.Kind == eventhook.KindNotFound
}

// send makes an attempt. One that panics over what somebody has published must
// not take the process down.
func (d *Dispatcher) send(ctx context.Context, s Sending) (a eventhook.Attempt) {
	began := d.Now()
	defer func() {
		if reason := recover(); reason != nil {
			d.Log.Error("an attempt panicked; it has failed", "delivery", s.Delivery.ID, "subscription", s.Subscription.ID, "panic", fmt.Sprintf("%T", reason), "stack", string(debug.Stack()))
			a = eventhook.Attempt{StartedAt: began, Duration: d.Now().Sub(began), ErrorClass: eventhook.ErrorClosed, Error: "it could not be sent, by a fault of the gateway"}
		}
	}()
	return d.Sender.Send(ctx, s)
}
