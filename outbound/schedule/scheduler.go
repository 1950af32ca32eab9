package schedule

import (
	"time"

	"github.com/eventhook/eventhook"
)

// Config bounds a Scheduler.
type Config struct {
	Slots      int           // maximum number of concurrent sends; 0: this instance sends nothing
	Deliveries int           // maximum number of deliveries in memory, from their reservation until they are freed
	Bytes      int           // maximum number of bytes of their events
	Batch      int           // maximum number of deliveries of one destination in one claim
	Unsettled  int           // outcomes that wait for the database; at this number all sends stop
	Lease      time.Duration // of a delivery, in addition to the Timeout of its destination
}

// Work is a set of kinds of work that the caller can do now.
type Work uint8

// The kinds of work.
const (
	WorkSend    Work = 1 << iota // call Advance and Next
	WorkClaim                    // call NextClaim
	WorkRate                     // call RateRequests
	WorkRelease                  // call TakeReleased
	WorkMemory                   // memory was refused and is free now: look for due deliveries
)

// Has reports whether the set contains a kind of work.
func (w Work) Has(kind Work) bool { return w&kind != 0 }

// Scheduler decides which delivery is sent next. It is not safe for concurrent
// use; see the package comment.
type Scheduler struct {
	config Config
	chance func() float64
	work   Work // since the last call of Work

	queues    map[eventhook.DestinationID]*queue
	tenants   map[eventhook.TenantID]*tenant
	ready     [classes]fifo[*tenant] // the round robin of tenants with ready queues
	nextClass class                  // the class that Next tries first
	timers    timers
	claims    fifo[*queue] // queues that have memory for due deliveries
	rates     []*queue     // queues that need reserved send times

	sending   sends
	waiting   int
	held      int // deliveries, from their reservation until they are freed
	bytes     int // of deliveries, from Offer until they are freed
	unsettled int
	open      int // queues with an open circuit
	released  []*eventhook.Delivery
	refused   bool // a queue got no memory because the limits were reached
	closed    bool
}

// tenant counts the slots and the memory that the destinations of one tenant use.
type tenant struct {
	id      eventhook.TenantID
	queues  map[*queue]struct{}
	ready   [classes]fifo[*queue] // the round robin of queues that may send
	isReady [classes]bool         // the tenant is in the round robin of tenants
	sending sends
	held    int
	bytes   int
}

// New returns an empty scheduler. chance returns random numbers between 0 and 1, which
// spread the probes of open circuits.
func New(config Config, chance func() float64) *Scheduler {
	return &Scheduler{config: config, chance: chance, closed: config.Slots == 0,
		queues: map[eventhook.DestinationID]*queue{}, tenants: map[eventhook.TenantID]*tenant{}}
}

// Work returns the kinds of work that arose since the last call.
func (s *Scheduler) Work() Work {
	w := s.work
	s.work = 0
	return w
}

// Close releases all waiting deliveries and stops all sends. Deliveries that are offered
// later are released, too.
func (s *Scheduler) Close() {
	s.closed = true
	for _, q := range s.queues {
		s.releaseWaiting(q)
	}
}

// queueOf returns the queue of a destination, and creates it if necessary. It
// applies the configuration.
func (s *Scheduler) queueOf(d Destination, now time.Time) *queue {
	q := s.queues[d.ID]
	if q == nil {
		owner := s.tenants[d.TenantID]
		if owner == nil {
			owner = &tenant{id: d.TenantID, queues: map[*queue]struct{}{}}
			s.tenants[d.TenantID] = owner
		}
		q = newQueue(d, owner)
		s.queues[d.ID] = q
		owner.queues[q] = struct{}{}
	}
	q.usedAt = now
	s.configure(q, d)
	return q
}

// configure applies the configuration of a destination, unless the queue has a newer
// version. If the destination is not ready, its waiting deliveries are released.
func (s *Scheduler) configure(q *queue, d Destination) {
	if d == q.Destination || d.Version < q.Version {
		return
	}
	before := q.breaker.state
	q.configure(d)
	s.countOpen(before, q.breaker.state)
	if !d.Ready {
		s.releaseWaiting(q)
	}
}

func (s *Scheduler) countOpen(before, after State) {
	if before != Open && after == Open {
		s.open++
	}
	if before == Open && after != Open {
		s.open--
	}
}

// refresh adds a queue to the round robin, the claims, the rate requests and the timers
// as its state requires. It must be called after each change of a queue.
func (s *Scheduler) refresh(q *queue, now time.Time) {
	if !q.nextRetryAt.IsZero() && !now.Before(q.nextRetryAt) {
		q.nextRetryAt, q.hasBacklog = time.Time{}, true
	}
	s.refreshSends(q, now)
	if q.hasBacklog && !q.isClaiming && s.claimSize(q, now) > 0 {
		q.isClaiming = true
		s.claims.push(q)
		s.work |= WorkClaim
	}
}

// refreshSends is refresh without the claims.
func (s *Scheduler) refreshSends(q *queue, now time.Time) {
	for c := range classes {
		if q.waiting[c].len() > 0 && !q.isReady[c] && q.mayStart(c, now) {
			s.markReady(q, c)
		}
	}
	if q.count() > 0 && !q.rate.requested && q.rate.isSpent(now) && !q.inBackoff(now) {
		q.rate.requested = true
		s.rates = append(s.rates, q)
		s.work |= WorkRate
	}
	if at := q.wakeAt(now); at.IsZero() {
		s.timers.unset(&q.timer)
	} else if s.timers.set(&q.timer, at) {
		s.work |= WorkSend
	}
}

// Advance refreshes all queues whose timers are due. It returns when to call it again, or
// false if no timer is set.
func (s *Scheduler) Advance(now time.Time) (next time.Time, ok bool) {
	for t := s.timers.due(now); t != nil; t = s.timers.due(now) {
		s.refresh(t.queue, now)
	}
	if len(s.timers) == 0 {
		return time.Time{}, false
	}
	return s.timers[0].at, true
}
