package replay

import (
	"context"
	"time"

	"github.com/eventhook/eventhook"
)

// Store stores replays and deliveries. Safe for concurrent use.
type Store interface {
	// LeaseReplay leases a running replay for the duration lease: of the tenants in round
	// robin, the one that has been due for the longest time. If none is due, it returns nil
	// and the time at which the next one is due, zero if there is none.
	LeaseReplay(ctx context.Context, lease time.Duration) (job *Job, next time.Time, err error)
	// ReplayPage reads the next limit rows of the replay after its cursor, oldest event
	// first.
	ReplayPage(ctx context.Context, job *Job, limit int) (Page, error)
	// ReadReplayEvents sets Event of the first n deliveries, with the payload. It reads
	// at least one, and stops when the payloads take too much memory. An event past its
	// retention has no Body.
	ReadReplayEvents(ctx context.Context, list []*eventhook.Delivery) (n int, err error)
	// AdvanceReplay writes the result of a step in one transaction, and ends the lease. It
	// changes nothing if the lease was lost, or if the replay has ended or was deleted.
	AdvanceReplay(ctx context.Context, job *Job, step Step) error
	// ReplaysWake returns a channel that is closed when a replay may have become due on
	// this instance.
	ReplaysWake() <-chan struct{}
}

// Job is a replay that this instance has leased.
type Job struct {
	eventhook.Replay
	// Cursor is the id of the last row that was handled: of an event if Missing is true,
	// else of a delivery. It is zero at the beginning, and IsRead is true after the last
	// page.
	Cursor     [16]byte
	IsRead     bool
	LeaseToken int64
	// Subscription is the subscription as it is now.
	Subscription eventhook.Subscription
	// IsFailing means that an outage of the subscription's receiver is going on.
	IsFailing bool
	// Open counts the queued deliveries that have not ended, at most up to MaxOpen+1.
	Open       int
	ReleasedAt time.Time // when the replay last queued deliveries; zero before
	CountedAt  time.Time // when Sent and Failed were last counted; zero before
}

// Start returns the time of the first event. A recovery also queues deliveries of events from
// before the outage that became dead during the outage, up to the maximum age of its
// subscription.
func (j *Job) Start() time.Time {
	if j.Kind == eventhook.ReplayRecovery {
		return j.Until.Add(-j.Subscription.Recovery.MaxAge())
	}
	return j.Since
}

// isReleased reports whether a delivery was released after the outage of a recovery that began later
// than its outage ended. Recovery queues a delivery once for each outage.
func (j *Job) isReleased(d *eventhook.Delivery) bool {
	return j.CreatedAt.After(j.Until) && d.RestartedAt != nil && !d.RestartedAt.Before(j.Until)
}

// cursorAfter returns the cursor after the first n deliveries of a list.
func (j *Job) cursorAfter(list []*eventhook.Delivery, n int) [16]byte {
	switch {
	case n == 0:
		return j.Cursor
	case j.Missing:
		return list[n-1].EventID
	}
	return list[n-1].ID
}

// Page is a part of the events of a replay.
type Page struct {
	// Deliveries has the deliveries that the replay may queue, in the order of their events. Status is ""
	// if the delivery does not exist. CompletedAt is set if it has ended, and RestartedAt if it was released.
	Deliveries []*eventhook.Delivery
	Cursor     [16]byte // after the page
	IsLast     bool
}

// Step is the result of a step.
type Step struct {
	Matched int                   // events that matched
	Queue   []*eventhook.Delivery // deliveries to queue, oldest event first; a delivery without a Status is created
	Cursor  [16]byte              // the new cursor
	IsRead  bool
	DueAt   time.Time // of the next step
	Counts  bool      // Sent and Failed are counted
	// End is the state in which the replay ends; "" if it continues.
	End eventhook.ReplayStatus
}

// MaxOpen is how many deliveries of a replay may be open before it queues no more.
const MaxOpen = 2000

// MaxRecoveries is how often recovery queues a delivery, in all.
const MaxRecoveries = 3
