package schedule

import (
	"time"

	"github.com/eventhook/eventhook"
)

// Reserve reserves memory for up to n new deliveries that are about to be stored. It
// returns how many are granted, and the end of their leases. The caller must offer or
// release each granted delivery. Reserve grants nothing while the destination is not
// ready, in backoff, or has an open circuit: only claimed deliveries are sent as probes.
func (s *Scheduler) Reserve(d Destination, n int, now time.Time) (granted int, until time.Time) {
	until = now.Add(s.config.Lease + d.Timeout)
	if !d.Ready || s.closed {
		return 0, until
	}
	q := s.queueOf(d, now)
	capacity := q.capacity(now, s.config.Lease)
	if q.hasBacklog {
		// The other half is for the backlog, which has waited longer. Recovered deliveries
		// wait for new ones, so they do not count.
		capacity = (capacity+1)/2 + q.waiting[recovered].len()
	}
	if q.breaker.state != Open {
		granted = min(n, s.available(q, capacity))
	}
	s.addReserved(q, granted)
	if granted < n {
		q.hasBacklog = true
		s.refreshSends(q, now)
	}
	return granted, until
}

// Release frees memory that was reserved for n deliveries.
func (s *Scheduler) Release(id eventhook.DestinationID, n int, now time.Time) {
	if q := s.queues[id]; q != nil && n > 0 {
		q.subtract(n, 0)
		s.freeMemory(n, 0)
		s.refresh(q, now)
	}
}

// Offer queues leased deliveries for which memory was reserved, with their events. A
// delivery whose destination is in backoff or not ready is released, as are all
// deliveries after Close.
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
			q.subtract(1, n)
			q.hasBacklog = true
			s.release(d)
		} else {
			q.waiting[q.classOf(d)].push(d)
			s.waiting++
		}
		s.refresh(q, now)
	}
}

// addReserved counts n deliveries for which memory is reserved.
func (s *Scheduler) addReserved(q *queue, n int) {
	q.held += n
	q.tenant.held += n
	s.held += n
}

// subtract subtracts deliveries from the memory that a queue and its tenant use. The
// total of the scheduler includes them until freeMemory.
func (q *queue) subtract(n, bytes int) {
	q.held -= n
	q.bytes -= bytes
	q.tenant.held -= n
	q.tenant.bytes -= bytes
}

// freeMemory subtracts deliveries and bytes from the memory that the scheduler uses.
func (s *Scheduler) freeMemory(n, bytes int) {
	s.held -= n
	s.bytes -= bytes
}

// claimSize returns how many deliveries a queue should claim. It is zero until half of
// the queue's capacity is free, so that one claim gets many deliveries.
func (s *Scheduler) claimSize(q *queue, now time.Time) int {
	capacity := q.capacity(now, s.config.Lease)
	if q.held > capacity/2 {
		return 0
	}
	return s.available(q, capacity)
}

// available returns how many more deliveries a queue with this capacity may hold now.
func (s *Scheduler) available(q *queue, capacity int) int {
	wanted := min(capacity-q.held, s.queueLimit())
	if s.closed || wanted <= 0 {
		return 0
	}
	free, freeBytes := s.config.Deliveries-s.held, s.config.Bytes-s.bytes
	// A tenant uses at most as much memory as stays free for all other tenants.
	tenantFree := free - q.tenant.held
	tenantBytesFull := q.tenant.bytes >= freeBytes
	queueBytesFull := q.bytes >= s.config.Bytes/queueShare
	granted := max(0, min(wanted, free, tenantFree))
	if freeBytes <= 0 || tenantBytesFull || queueBytesFull {
		granted = 0
	}
	s.refused = s.refused || granted == 0
	return granted
}

// queueLimit returns how many deliveries one queue may hold.
func (s *Scheduler) queueLimit() int { return s.config.Deliveries / queueShare }

// releaseWaiting releases all waiting deliveries of a queue.
func (s *Scheduler) releaseWaiting(q *queue) {
	for c := range q.waiting {
		for q.waiting[c].len() > 0 {
			d := q.waiting[c].pop()
			s.waiting--
			q.subtract(1, size(d))
			q.hasBacklog = true
			s.release(d)
		}
	}
}

func (s *Scheduler) release(d *eventhook.Delivery) {
	s.released = append(s.released, d)
	s.work |= WorkRelease
}

// TakeReleased removes and returns up to n deliveries that the caller must release in the
// database. They occupy memory until the caller calls Freed.
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

// Freed frees the memory of deliveries. If settled is true, their outcomes were settled or
// the attempt to settle them was given up. Otherwise they were released in the database.
func (s *Scheduler) Freed(list []*eventhook.Delivery, settled bool) {
	bytes := 0
	for _, d := range list {
		bytes += size(d)
	}
	s.freeMemory(len(list), bytes)
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

// size returns the bytes of a delivery's event. The event must not change while the
// scheduler has the delivery.
func size(d *eventhook.Delivery) int {
	if d.Event == nil {
		return 0
	}
	return len(d.Event.Headers) + len(d.Event.Body) + len(d.Body)
}
