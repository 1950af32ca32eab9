package schedule

import (
	"time"

	"github.com/eventhook/eventhook"
)

// Reserve asks for memory for n new deliveries that are about to be stored. It
// returns how many are granted, and until when to lease them. Each one must be
// offered or released. Nothing is granted while the destination is not ready, in
// backoff, or its circuit is open: a probe is a delivery that has waited.
func (s *Scheduler) Reserve(d Destination, n int, now time.Time) (granted int, until time.Time) {
	until = now.Add(s.config.Lease + d.Timeout)
	if !d.Ready || s.closed {
		return 0, until
	}
	q := s.queueOf(d, now)
	most := q.capacity(now, s.config.Lease)
	if q.hasBacklog {
		most = (most + 1) / 2 // the other half is for deliveries that have waited longer
	}
	if q.breaker.state != Open {
		granted = min(n, s.available(q, most))
	}
	s.hold(q, granted)
	if granted < n {
		q.hasBacklog = true
		s.refreshSends(q, now)
	}
	return granted, until
}

// Release gives back memory that was reserved for n deliveries.
func (s *Scheduler) Release(id eventhook.DestinationID, n int, now time.Time) {
	if q := s.queues[id]; q != nil && n > 0 {
		q.leave(n, 0)
		s.forget(n, 0)
		s.refresh(q, now)
	}
}

// Offer takes leased deliveries for which memory was reserved, with their events.
// A delivery that must not wait here any more is released.
func (s *Scheduler) Offer(list []*eventhook.Delivery, now time.Time) {
	for _, d := range list {
		q := s.queues[d.DestinationID]
		if q == nil {
			continue // nothing was reserved
		}
		n := size(d)
		q.bytes += n
		q.tenant.bytes += n
		s.bytes += n
		if s.closed || q.inBackoff(now) || !q.Ready {
			q.leave(1, n)
			q.hasBacklog = true
			s.release(d)
		} else {
			q.waiting[classOf(d)].push(d)
			s.waiting++
		}
		s.refresh(q, now)
	}
}

// hold counts reserved deliveries.
func (s *Scheduler) hold(q *queue, n int) {
	q.held += n
	q.tenant.held += n
	s.held += n
}

// leave removes deliveries from the share of a queue and its tenant. They stay in
// memory until they are freed.
func (q *queue) leave(n, bytes int) {
	q.held -= n
	q.bytes -= bytes
	q.tenant.held -= n
	q.tenant.bytes -= bytes
}

// forget frees memory.
func (s *Scheduler) forget(n, bytes int) {
	s.held -= n
	s.bytes -= bytes
}

// wanted is how many deliveries a queue should claim: zero until it has memory for
// half of its capacity, so that one claim gets many.
func (s *Scheduler) wanted(q *queue, now time.Time) int {
	most := q.capacity(now, s.config.Lease)
	if q.held > most/2 {
		return 0
	}
	return s.available(q, most)
}

// available is how many more deliveries a queue may hold, if its capacity is most.
func (s *Scheduler) available(q *queue, most int) int {
	wanted := min(most-q.held, s.queueLimit())
	if s.closed || wanted <= 0 {
		return 0
	}
	free, freeBytes := s.config.Deliveries-s.held, s.config.Bytes-s.bytes
	tenantFree := max(1, free) - q.tenant.held // a tenant gets as much as stays free besides its own
	granted := max(0, min(wanted, free, tenantFree))
	if freeBytes <= 0 || q.tenant.bytes >= freeBytes || q.bytes >= s.config.Bytes/queueShare {
		granted = 0
	}
	s.refused = s.refused || granted == 0
	return granted
}

// queueLimit is how many deliveries one queue may hold.
func (s *Scheduler) queueLimit() int { return s.config.Deliveries / queueShare }

// withdraw releases all waiting deliveries of a queue.
func (s *Scheduler) withdraw(q *queue) {
	for c := range q.waiting {
		for q.waiting[c].len() > 0 {
			d := q.waiting[c].pop()
			s.waiting--
			q.leave(1, size(d))
			q.hasBacklog = true
			s.release(d)
		}
	}
}

func (s *Scheduler) release(d *eventhook.Delivery) {
	s.released = append(s.released, d)
	s.work |= WorkRelease
}

// TakeReleased removes up to n deliveries that must be given back to the database.
// They occupy memory until the caller calls Freed.
func (s *Scheduler) TakeReleased(n int) []*eventhook.Delivery {
	n = min(n, len(s.released))
	list := append([]*eventhook.Delivery(nil), s.released[:n]...)
	clear(s.released[:n])
	if s.released = s.released[n:]; len(s.released) == 0 {
		s.released = nil
	} else {
		s.work |= WorkRelease
	}
	return list
}

// Freed frees the memory of deliveries that were given back, or, with settled, whose
// outcomes were settled or given up.
func (s *Scheduler) Freed(list []*eventhook.Delivery, settled bool) {
	bytes := 0
	for _, d := range list {
		bytes += size(d)
	}
	s.forget(len(list), bytes)
	if settled {
		if s.unsettled >= s.config.Unsettled {
			s.work |= WorkSend
		}
		s.unsettled -= len(list)
	}
	if s.refused {
		s.refused = false
		s.work |= WorkMemory
	}
}

// size is the memory of a delivery's event. The event must not change while the
// scheduler has the delivery.
func size(d *eventhook.Delivery) int {
	if d.Event == nil {
		return 0
	}
	return len(d.Event.Headers) + len(d.Event.Body) + len(d.Body)
}
