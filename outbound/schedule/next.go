package schedule

import (
	"time"

	"github.com/eventhook/eventhook"
)

// Job is a delivery to send. It occupies a slot until it is finished.
type Job struct {
	Delivery    *eventhook.Delivery
	Destination Destination // as the scheduler knows it
	queue       *queue
	class       class
	epoch       int // of the queue's circuit breaker
}

// Next returns the delivery to send next; false if no delivery may be sent now. Each job
// must be finished.
func (s *Scheduler) Next(now time.Time) (j Job, ok bool) {
	if s.closed || s.unsettled >= s.config.Unsettled {
		return j, false
	}
	for range classes {
		c := s.turn
		s.turn = (s.turn + 1) % classes
		if j, ok = s.nextOf(c, now); ok {
			break
		}
	}
	return j, ok
}

// free is a number of unused slots: of all slots, and of the ones that retries may use.
type free struct{ all, retries int }

// of is how many slots a class may use.
func (f free) of(c class) int {
	if c == retry {
		return min(f.all, f.retries)
	}
	return f.all
}

// free returns the unused slots. Retries get half of the slots at most.
func (s *Scheduler) free() free {
	all := s.config.Slots
	return free{all - s.sending[first] - s.sending[retry], max(1, all/2) - s.sending[retry]}
}

// share returns how many of the unused slots a tenant may use: as many as are unused
// besides the slots that the tenant uses itself. A tenant whose sends do not end leaves
// slots for all other tenants.
func (t *tenant) share(f free) free {
	return free{f.all - t.sending[first] - t.sending[retry], f.retries - t.sending[retry]}
}

// nextOf goes round the tenants with ready queues of a class.
func (s *Scheduler) nextOf(c class, now time.Time) (Job, bool) {
	unused := s.free()
	if unused.of(c) <= 0 {
		return Job{}, false
	}
	for range s.ready[c].len() {
		t := s.ready[c].pop()
		q := s.nextQueue(t, c, t.share(unused).of(c), now)
		if t.isReady[c] = t.ready[c].len() > 0; t.isReady[c] {
			s.ready[c].push(t)
		}
		if q != nil {
			return s.begin(q, c, now), true
		}
	}
	return Job{}, false
}

// nextQueue goes round the ready queues of a tenant whose share is this many slots. A
// queue gets a quarter of the share, so that slow destinations leave slots for the
// tenant's other queues. A queue that may not send leaves the round robin until something
// about it changes.
func (s *Scheduler) nextQueue(t *tenant, c class, share int, now time.Time) *queue {
	const quarter = 4
	if share <= 0 {
		return nil
	}
	for range t.ready[c].len() {
		q := t.ready[c].pop()
		switch {
		case q.waiting[c].len() == 0 || !q.maySend(now):
			q.isReady[c] = false
			s.refresh(q, now)
		case q.sending >= max(1, share/quarter):
			t.ready[c].push(q)
		default:
			q.isReady[c] = false // begin puts it back
			return q
		}
	}
	return nil
}

// enqueue puts a queue into the round robin of its tenant, and the tenant into that of
// all.
func (s *Scheduler) enqueue(q *queue, c class) {
	t := q.tenant
	q.isReady[c] = true
	t.ready[c].push(q)
	if !t.isReady[c] {
		t.isReady[c] = true
		s.ready[c].push(t)
	}
	s.work |= WorkSend
}

// begin takes the first delivery of a queue.
func (s *Scheduler) begin(q *queue, c class, now time.Time) Job {
	j := Job{Delivery: q.waiting[c].pop(), Destination: q.Destination, queue: q, class: c, epoch: q.breaker.epoch}
	q.rate.use(now)
	q.sending++
	q.tenant.sending[c]++
	s.sending[c]++
	s.waiting--
	s.refresh(q, now)
	return j
}
