package schedule

import (
	"time"

	"github.com/eventhook/eventhook"
)

// Job is a delivery to send. It occupies a slot until it is finished.
type Job struct {
	Delivery    *eventhook.Delivery
	Destination Destination // the configuration that the scheduler has
	queue       *queue
	class       class
	epoch       int       // of the queue's circuit breaker
	readyAt     time.Time // when the limits of the destination last began to allow a send; zero: they always did
}

// Delay returns how long the delivery has waited for the gateway: since it became due, the
// destination changed, or the limits of the destination allowed a send again, whichever was
// last. It returns false for recovered deliveries, which are sent slowly on purpose, and if it
// is unknown when the delivery became due.
func (j Job) Delay(changedAt, now time.Time) (time.Duration, bool) {
	since := j.Delivery.DueSince
	if since.IsZero() || j.class == recovered || j.Delivery.IsReleased {
		return 0, false
	}
	for _, at := range [...]time.Time{changedAt, j.readyAt} {
		if at.After(since) {
			since = at
		}
	}
	return max(0, now.Sub(since)), true
}

// Next returns the delivery to send next, or false if no delivery may be sent now. The
// caller must call Finish for each job.
func (s *Scheduler) Next(now time.Time) (j Job, ok bool) {
	if s.closed || s.unsettled >= s.config.Unsettled {
		return j, false
	}
	for range classes {
		c := s.nextClass
		s.nextClass = (s.nextClass + 1) % classes
		if j, ok = s.nextOf(c, now); ok {
			break
		}
	}
	return j, ok
}

// sends counts sends in progress by class.
type sends [classes]int

func (s sends) all() int { return s[first] + s.later() }

// later counts the sends that are not first attempts at new events.
func (s sends) later() int { return s[retry] + s[recovered] }

// freeSlots counts unused slots. Retries and recovered deliveries may use retries of them, but
// no more than all.
type freeSlots struct{ all, retries int }

// usableBy returns how many of the slots a class may use.
func (f freeSlots) usableBy(c class) int {
	if c != first {
		return min(f.all, f.retries)
	}
	return f.all
}

// freeSlots returns the unused slots. Retries and recovered deliveries use at most half of all
// slots, so that they leave slots for first attempts.
func (s *Scheduler) freeSlots() freeSlots {
	retrySlots := max(1, s.config.Slots/2)
	return freeSlots{all: s.config.Slots - s.sending.all(), retries: retrySlots - s.sending.later()}
}

// share returns how many of the free slots a tenant may still use. A tenant uses at most
// as many slots as are free, so a tenant whose sends do not end leaves slots for all
// other tenants.
func (t *tenant) share(free freeSlots) freeSlots {
	return freeSlots{all: free.all - t.sending.all(), retries: free.retries - t.sending.later()}
}

// nextOf returns the next job of a class, round robin between the tenants that have ready
// queues of the class.
func (s *Scheduler) nextOf(c class, now time.Time) (Job, bool) {
	free := s.freeSlots()
	if free.usableBy(c) <= 0 {
		return Job{}, false
	}
	for range s.ready[c].len() {
		t := s.ready[c].pop()
		q := s.nextQueue(t, c, t.share(free).usableBy(c), now)
		if t.isReady[c] = t.ready[c].len() > 0; t.isReady[c] {
			s.ready[c].push(t)
		}
		if q != nil {
			return s.begin(q, c, now), true
		}
	}
	return Job{}, false
}

// nextQueue returns the next ready queue of a tenant that may use tenantShare more slots,
// round robin. A queue uses at most a quarter of that share, so that slow destinations
// leave slots for the tenant's other queues. A queue that may not send is removed from
// the round robin until its state changes.
func (s *Scheduler) nextQueue(t *tenant, c class, tenantShare int, now time.Time) *queue {
	if tenantShare <= 0 {
		return nil
	}
	queueSlots := max(1, tenantShare/4)
	for range t.ready[c].len() {
		q := t.ready[c].pop()
		switch {
		case q.waiting[c].len() == 0 || !q.mayStart(c, now):
			q.isReady[c] = false
			s.refresh(q, now)
		case q.sending >= queueSlots:
			t.ready[c].push(q)
		default:
			q.isReady[c] = false // begin adds the queue again
			return q
		}
	}
	return nil
}

// markReady adds a queue to the round robin of its tenant, and the tenant to the round
// robin of all tenants.
func (s *Scheduler) markReady(q *queue, c class) {
	t := q.tenant
	q.isReady[c] = true
	t.ready[c].push(q)
	if !t.isReady[c] {
		t.isReady[c] = true
		s.ready[c].push(t)
	}
	s.work |= WorkSend
}

// begin starts a job for the oldest waiting delivery of a queue.
func (s *Scheduler) begin(q *queue, c class, now time.Time) Job {
	j := Job{Delivery: q.waiting[c].pop(), Destination: q.Destination, queue: q, class: c, epoch: q.breaker.epoch, readyAt: q.readyAt()}
	q.rate.use(now)
	q.sending++
	if c == recovered {
		q.recovery.sending++
	}
	q.tenant.sending[c]++
	s.sending[c]++
	s.waiting--
	s.refresh(q, now)
	return j
}
