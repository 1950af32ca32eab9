package schedule

import (
	"time"

	"github.com/eventhook/eventhook"
)

// recovery limits the concurrent sends of recovered deliveries to one destination, within the
// limits of its queue. It starts with one slot, which double with each round of successes, and
// returns to one slot after a failure.
type recovery struct {
	slots     int // 0 means 1
	sending   int
	succeeded int // since slots changed
}

func (r *recovery) hasSlot() bool { return r.sending < max(1, r.slots) }

// finish counts a send that has ended.
func (r *recovery) finish(succeeded bool, maxSlots int) {
	if r.slots = max(1, r.slots); !succeeded {
		r.slots, r.succeeded = 1, 0
		return
	}
	if r.succeeded++; r.succeeded >= r.slots {
		r.slots, r.succeeded = min(2*r.slots, maxSlots), 0
	}
}

// restart begins with one slot again.
func (r *recovery) restart() { r.slots, r.succeeded = 1, 0 }

// isRecovered reports whether a first attempt is one of the deliveries that an outage has held,
// or that a recovery or replay has released.
func (q *queue) isRecovered(d *eventhook.Delivery) bool {
	return d.IsReleased || d.EventID.Time().Before(q.HeldBefore)
}

// mayStart reports whether a delivery of a class may be sent now. Recovered deliveries wait for
// the first attempts at new events.
func (q *queue) mayStart(c class, now time.Time) bool {
	return q.maySend(now) && (c != recovered || q.waiting[first].len() == 0 && q.recovery.hasSlot())
}

// isKnownFailure reports whether a failure says nothing new about the destination: the delivery
// has failed before since it was released. It may fail whenever it is sent.
func isKnownFailure(d *eventhook.Delivery) bool { return d.IsReleased && d.RetryCount > 0 }
