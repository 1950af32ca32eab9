package schedule

import (
	"time"

	"github.com/eventhook/eventhook"
)

// Destinations returns the destinations of a tenant that have a queue.
func (s *Scheduler) Destinations(id eventhook.TenantID) (list []Destination) {
	if t := s.tenants[id]; t != nil {
		for q := range t.queues {
			list = append(list, q.Destination)
		}
	}
	return list
}

// Tenants returns the tenants that have a queue.
func (s *Scheduler) Tenants() (list []eventhook.TenantID) {
	for id := range s.tenants {
		list = append(list, id)
	}
	return list
}

// Update applies the configuration of a destination, if it has a queue.
func (s *Scheduler) Update(d Destination, now time.Time) {
	if q := s.queues[d.ID]; q != nil {
		s.configure(q, d)
		s.refresh(q, now)
	}
}

// Remove releases the waiting deliveries of a destination that was deleted.
func (s *Scheduler) Remove(id eventhook.DestinationID) {
	if q := s.queues[id]; q != nil {
		s.releaseWaiting(q)
		q.hasBacklog = false
	}
}

// Sweep deletes queues that hold no delivery and were not used since a time. Their
// circuit breakers are deleted with them.
func (s *Scheduler) Sweep(since time.Time) {
	for id, q := range s.queues {
		if q.held > 0 || q.usedAt.After(since) {
			continue
		}
		s.countOpen(q.breaker.state, Closed)
		s.timers.unset(&q.timer)
		delete(s.queues, id)
		if delete(q.tenant.queues, q); len(q.tenant.queues) == 0 {
			delete(s.tenants, q.tenant.id)
		}
	}
}

// Stats counts the deliveries in memory.
type Stats struct {
	Waiting   int // deliveries that may be sent
	Sending   int
	Unsettled int // outcomes that wait for the database
	Open      int // destinations with an open circuit
	Breakers  int // destinations with a circuit, open or closed
}

// Stats returns the current counts.
func (s *Scheduler) Stats() Stats {
	return Stats{Waiting: s.waiting, Sending: s.sending.all(), Unsettled: s.unsettled, Open: s.open, Breakers: len(s.queues)}
}

// Status describes the queue of a destination.
type Status struct {
	Circuit      State
	Slots        int // concurrent sends that are allowed now
	Waiting      int
	Sending      int
	BackoffUntil time.Time
}

// Status returns the state of a destination, or false if the destination has no queue.
func (s *Scheduler) Status(id eventhook.DestinationID) (Status, bool) {
	q := s.queues[id]
	if q == nil {
		return Status{}, false
	}
	return Status{Circuit: q.breaker.state, Slots: q.slots(), Waiting: q.count(), Sending: q.sending, BackoffUntil: q.backoffUntil}, true
}

// Outage is the current series of failures of a destination.
type Outage struct {
	FailingSince time.Time // zero: the last attempt succeeded
	IsOpen       bool      // the circuit is open
}

// Outage returns the current series of failures of a destination on this instance.
func (s *Scheduler) Outage(id eventhook.DestinationID) (o Outage) {
	if q := s.queues[id]; q != nil {
		o = q.outage()
	}
	return o
}

// Blocked returns the destinations to which this instance cannot send more at present, because
// of the destinations themselves.
func (s *Scheduler) Blocked(now time.Time) (b eventhook.BlockedDestinations) {
	for id, q := range s.queues {
		switch {
		case q.breaker.state == Open:
			b.Open = append(b.Open, id)
		case s.isLimited(q, now):
			b.Limited = append(b.Limited, id)
		}
	}
	return b
}

// isLimited reports whether the limits of a queue itself keep its deliveries waiting.
func (s *Scheduler) isLimited(q *queue, now time.Time) bool {
	if q.inBackoff(now) || s.isFull(q, now) {
		return true
	}
	for c := range classes {
		if q.waiting[c].len() > 0 && q.mayStart(c, now) {
			return false
		}
	}
	return q.count() > 0
}
