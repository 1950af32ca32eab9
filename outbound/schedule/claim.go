package schedule

import (
	"time"

	"github.com/eventhook/eventhook"
)

// Due notes that deliveries of a destination are due in the database. It reports
// whether the caller should look the destination up and reserve a claim: false while
// there is no memory for it.
func (s *Scheduler) Due(id eventhook.DestinationID, now time.Time) (claim bool) {
	q := s.queues[id]
	if q == nil {
		return !s.closed
	}
	q.hasBacklog = true
	if s.wanted(q, now) > 0 {
		return true
	}
	s.refreshSends(q, now)
	return !q.Ready // it may be ready by now
}

// NextClaim removes the next destination that has a backlog in the database, and
// memory for it.
func (s *Scheduler) NextClaim() (Destination, bool) {
	if s.claims.len() == 0 {
		return Destination{}, false
	}
	q := s.claims.pop()
	q.isClaiming = false
	return q.Destination, true
}

// ReserveClaim reserves memory for deliveries that are due in the database, and reports
// whether they are probes of an open circuit. If n is not 0, the caller must offer
// the claimed deliveries and then call Claimed.
func (s *Scheduler) ReserveClaim(d Destination, now time.Time) (n int, isProbe bool) {
	q := s.queueOf(d, now)
	q.hasBacklog = true
	n = min(s.wanted(q, now), s.config.Batch)
	s.hold(q, n)
	s.refreshSends(q, now)
	return n, q.breaker.state == Open
}

// Claimed ends a claim: of the reserved deliveries so many were found. Fewer than
// reserved means that the backlog is empty.
func (s *Scheduler) Claimed(id eventhook.DestinationID, reserved, found int, now time.Time) {
	q := s.queues[id]
	if q == nil {
		return
	}
	q.leave(reserved-found, 0)
	s.forget(reserved-found, 0)
	q.hasBacklog = found >= reserved
	s.refresh(q, now)
}

// RateRequest asks for the reservation of send times.
type RateRequest struct {
	Destination Destination
	Count       int
	queue       *queue
}

// RateRequests removes the requests for send times that were made since the last call.
// Each must be answered by GrantRates.
func (s *Scheduler) RateRequests() (list []RateRequest) {
	for _, q := range s.rates {
		if q.rate.requested = q.count() > 0 && q.rate.interval > 0; q.rate.requested {
			list = append(list, RateRequest{Destination: q.Destination, Count: q.rate.count(q.count()), queue: q})
		}
	}
	s.rates = nil
	return list
}

// GrantRates answers requests: starts has the time of the first reserved send of each.
// Without starts, as after an error, the queues request again. If the first send is too
// late for a lease, the deliveries are released, and claimed again at that time.
func (s *Scheduler) GrantRates(list []RateRequest, starts []time.Time, now time.Time) {
	for i, r := range list {
		q := r.queue
		q.rate.requested = false
		if i < len(starts) {
			q.rate.grant(starts[i], r.Count)
			if starts[i].Sub(now) > s.config.Lease/2 {
				s.backOff(q, starts[i])
			}
		}
		s.refresh(q, now)
	}
}
