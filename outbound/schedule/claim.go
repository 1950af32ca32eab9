package schedule

import (
	"time"

	"github.com/eventhook/eventhook"
)

// ShouldClaim records that deliveries of a destination are due in the database. It
// reports whether the caller should look up the destination and then call ReserveClaim, or
// Update if the destination is not Ready. It returns false while there is no memory for the
// destination or the destination is in backoff.
func (s *Scheduler) ShouldClaim(id eventhook.DestinationID, now time.Time) (claim bool) {
	q := s.queues[id]
	if q == nil {
		return !s.closed
	}
	q.hasBacklog = true
	if s.claimSize(q, now) > 0 {
		return true
	}
	s.refreshSends(q, now)
	return !q.Ready // the destination may have become ready since it was last looked up
}

// Due records that deliveries of a destination are due in the database from a time on, so that
// the caller claims them then.
func (s *Scheduler) Due(id eventhook.DestinationID, at, now time.Time) {
	if q := s.queues[id]; q != nil {
		q.expectRetry(at)
		s.refresh(q, now)
	}
}

// NextClaim removes and returns the next destination that has a backlog in the database
// and memory for claimed deliveries. It returns false if no destination has both.
func (s *Scheduler) NextClaim() (Destination, bool) {
	if s.claims.len() == 0 {
		return Destination{}, false
	}
	q := s.claims.pop()
	q.isClaiming = false
	return q.Destination, true
}

// ReserveClaim reserves memory for n deliveries that are due in the database, and reports
// whether the claim is for a probe of an open circuit. If n is not 0, the caller must claim
// up to n deliveries, offer them, and then call Claimed.
func (s *Scheduler) ReserveClaim(d Destination, now time.Time) (n int, isProbe bool) {
	q := s.queueOf(d, now)
	q.hasBacklog = true
	n = min(s.claimSize(q, now), s.config.Batch)
	s.addReserved(q, n)
	s.refreshSends(q, now)
	return n, q.breaker.state == Open
}

// Claimed ends a claim, after its deliveries were offered. reserved is the sum of the
// results of ReserveClaim, and found the number of claimed deliveries. If found is less
// than reserved, the backlog is empty.
func (s *Scheduler) Claimed(id eventhook.DestinationID, reserved, found int, now time.Time) {
	q := s.queues[id]
	if q == nil {
		return
	}
	q.subtract(reserved-found, 0)
	s.freeMemory(reserved-found, 0)
	q.hasBacklog = found >= reserved
	s.refresh(q, now)
}

// RateRequest asks for the reservation of send times.
type RateRequest struct {
	Destination Destination
	Count       int
	queue       *queue
}

// RateRequests returns the requests for send times that were made since the last call.
// The caller must pass each of them to GrantRates.
func (s *Scheduler) RateRequests() (list []RateRequest) {
	for _, q := range s.rates {
		if q.rate.requested = q.count() > 0 && q.rate.interval > 0; q.rate.requested {
			list = append(list, RateRequest{Destination: q.Destination, Count: q.rate.count(q.count()), queue: q})
		}
	}
	s.rates = nil
	return list
}

// GrantRates answers requests. starts has the time of the first reserved send of each
// request. If starts is empty, as after an error, the queues request again. If the first
// send would be later than half a lease from now, the waiting deliveries are released,
// and claimed again at that time.
func (s *Scheduler) GrantRates(list []RateRequest, starts []time.Time, now time.Time) {
	for i, r := range list {
		q := r.queue
		q.rate.requested = false
		if i < len(starts) {
			q.rate.grant(starts[i], r.Count)
			if starts[i].Sub(now) > s.config.Lease/2 {
				s.delayQueue(q, starts[i])
			}
		}
		s.refresh(q, now)
	}
}
