package outbound

import (
	"context"
	"time"
)

// paceLoop reserves times to send at for lanes that are limited, many in one
// transaction.
func (d *Dispatcher) paceLoop(ctx context.Context) {
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
			return
		case <-d.traffic.pacing:
		}
		lanes, list := d.traffic.takeUnpaced()
		if len(list) == 0 {
			continue
		}
		first, err := d.Queue.PaceDeliveries(ctx, list)
		if err != nil {
			d.warn(ctx, "cannot reserve times to send at; trying again", err)
			sleep(ctx, time.Second)
			first = nil
		}
		d.traffic.grant(lanes, list, first, d.Now())
	}
}

// takeUnpaced removes the lanes that want times, and says how many each does.
func (t *traffic) takeUnpaced() (lanes []*lane, list []PaceRequest) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, l := range t.unpaced {
		if l.pace.asking = l.waiting() > 0 && l.pace.every > 0; l.pace.asking {
			lanes = append(lanes, l)
			list = append(list, PaceRequest{SubscriptionID: l.id, Count: l.pace.count(l.waiting()), PerSecond: l.sub.RatePerSecond})
		}
	}
	t.unpaced = nil
	return lanes, list
}

// grant gives lanes the times that were reserved for them; without any they ask
// again. What is to be sent only when its lease is over is given back, and
// claimed again when the time has come.
func (t *traffic) grant(lanes []*lane, list []PaceRequest, first []time.Time, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, l := range lanes {
		l.pace.asking = false
		if i < len(first) {
			l.pace.grant(first[i], list[i].Count)
			if first[i].Sub(now) > t.lease/2 {
				l.rest(first[i])
				t.withdraw(l)
			}
		}
		t.refresh(l, now)
	}
}
