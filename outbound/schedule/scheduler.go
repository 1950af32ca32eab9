package schedule

import (
	"time"

	"github.com/eventhook/eventhook"
)

// Config bounds a Scheduler.
type Config struct {
	Slots      int           // sends at once; 0: this instance sends nothing
	Deliveries int           // in memory, from their reservation until they are settled or released
	Bytes      int           // of their events
	Batch      int           // deliveries of one destination in one claim
	Unsettled  int           // outcomes that wait for the database; beyond it nothing more is sent
	Lease      time.Duration // in which a delivery should be sent
}

// Work is a set of kinds of work that the caller can do now.
type Work uint8

// The kinds of work.
const (
	WorkSend    Work = 1 << iota // call Advance and Next
	WorkClaim                    // call NextClaim
	WorkRate                     // call RateRequests
	WorkRelease                  // call TakeReleased
	WorkMemory                   // memory was freed that was refused before: look for due deliveries
)

// Has reports whether the set contains a kind of work.
func (w Work) Has(kind Work) bool { return w&kind != 0 }

// Scheduler decides which delivery is sent next. It is not safe for concurrent
// use; see the package comment.
type Scheduler struct {
	config Config
	chance func() float64
	work   Work // new since the last call of Work

	queues  map[eventhook.DestinationID]*queue
	tenants map[eventhook.TenantID]*tenant
	ready   [classes]fifo[*tenant] // the round robin of tenants with ready queues
	turn    class                  // the class that Next tries first
	timers  timers
	claims  fifo[*queue] // queues that have memory for due deliveries
	rates   []*queue     // queues that want a reservation of send times

	sending   [classes]int
	waiting   int
	held      int // deliveries from their reservation until they are freed
	bytes     int // of deliveries from Offer until they are freed
	unsettled int
	open      int // queues with an open circuit
	released  []*eventhook.Delivery
	refused   bool // a queue got no memory because it was full
	closed    bool
}

// tenant shares slots and memory among the destinations of one tenant.
type tenant struct {
	id      eventhook.TenantID
	queues  map[*queue]struct{}
	ready   [classes]fifo[*queue] // the round robin of queues that may send
	isReady [classes]bool         // the tenant is in the round robin of tenants
	sending [classes]int
	held    int
	bytes   int
}

// New returns an empty scheduler. Chance returns numbers between 0 and 1, which
// spread the probes of open circuits.
func New(config Config, chance func() float64) *Scheduler {
	return &Scheduler{config: config, chance: chance, closed: config.Slots == 0,
		queues: map[eventhook.DestinationID]*queue{}, tenants: map[eventhook.TenantID]*tenant{}}
}

// Work returns the work that came up since the last call.
func (s *Scheduler) Work() Work {
	w := s.work
	s.work = 0
	return w
}

// Close releases all waiting deliveries, and accepts no more: Offer releases its
// deliveries.
func (s *Scheduler) Close() {
	s.closed = true
	for _, q := range s.queues {
		s.withdraw(q)
	}
}

// queueOf returns the queue of a destination, and creates it if necessary. It
// applies the configuration.
func (s *Scheduler) queueOf(d Destination, now time.Time) *queue {
	q := s.queues[d.ID]
	if q == nil {
		of := s.tenants[d.TenantID]
		if of == nil {
			of = &tenant{id: d.TenantID, queues: map[*queue]struct{}{}}
			s.tenants[d.TenantID] = of
		}
		q = newQueue(d, of)
		s.queues[d.ID] = q
		of.queues[q] = struct{}{}
	}
	q.usedAt = now
	s.configure(q, d)
	return q
}

// configure applies the configuration of a destination, unless it is older than the
// known one. Deliveries of a destination that is not ready are released.
func (s *Scheduler) configure(q *queue, d Destination) {
	if d == q.Destination || d.Version < q.Version {
		return
	}
	before := q.breaker.state
	q.configure(d)
	s.countOpen(before, q.breaker.state)
	if !d.Ready {
		s.withdraw(q)
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

// refresh puts a queue into the round robin, the claims, the rate requests and the
// timers, whichever it needs now. Call it after each change of a queue.
func (s *Scheduler) refresh(q *queue, now time.Time) {
	if !q.nextRetryAt.IsZero() && !now.Before(q.nextRetryAt) {
		q.nextRetryAt, q.hasBacklog = time.Time{}, true
	}
	s.refreshSends(q, now)
	if q.hasBacklog && !q.isClaiming && s.wanted(q, now) > 0 {
		q.isClaiming = true
		s.claims.push(q)
		s.work |= WorkClaim
	}
}

// refreshSends is refresh without the claims.
func (s *Scheduler) refreshSends(q *queue, now time.Time) {
	for c := range classes {
		if q.waiting[c].len() > 0 && !q.isReady[c] && q.maySend(now) {
			s.enqueue(q, c)
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

// Advance handles all timers that are due. It returns when to call it again; false if
// no timer is set.
func (s *Scheduler) Advance(now time.Time) (next time.Time, ok bool) {
	for t := s.timers.due(now); t != nil; t = s.timers.due(now) {
		s.refresh(t.queue, now)
	}
	if len(s.timers) == 0 {
		return time.Time{}, false
	}
	return s.timers[0].at, true
}
