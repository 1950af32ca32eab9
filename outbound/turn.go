package outbound

import (
	"time"

	"github.com/eventhook/eventhook"
)

// job is a delivery that was taken to be sent. It holds a place until it is
// ended.
type job struct {
	lane     *lane
	delivery *eventhook.Delivery
	kind     kind
	epoch    int // of the lane's breaker
	sub      *eventhook.Subscription
}

// line has a lane stand in its tenant's line, and the tenant in that of all.
func (t *traffic) line(l *lane, k kind) {
	of := l.tenant
	l.inLine[k] = true
	of.lines[k].push(l)
	if !of.inLine[k] {
		of.inLine[k] = true
		t.lines[k].push(of)
	}
	t.moved.ring()
}

// take removes the delivery whose turn it is, false if none may be sent now.
// What is new and what is tried again alternate, then tenants do, and then the
// lanes of each.
func (t *traffic) take(now time.Time) (job, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.takeLocked(now)
}

func (t *traffic) takeLocked(now time.Time) (j job, ok bool) {
	if t.closed || t.unsettled >= t.config.UnsettledDeliveries {
		return j, false
	}
	for range len(t.lines) {
		k := t.turn
		t.turn = 1 - t.turn
		if j, ok = t.takeOf(k, now); ok {
			break
		}
	}
	return j, ok
}

// takeOf goes around the tenants until one has a turn. Whoever has nothing
// under way has one, so it looks at no more of them than have something, and
// one.
func (t *traffic) takeOf(k kind, now time.Time) (job, bool) {
	free := places{t.config.SendsAtOnce - t.running[fresh] - t.running[again], max(1, t.config.SendsAtOnce/2) - t.running[again]}
	if free.of(k) <= 0 {
		return job{}, false
	}
	for range t.lines[k].len() {
		of := t.lines[k].pop()
		l := t.next(of, k, of.left(free).of(k), now)
		if of.inLine[k] = of.lines[k].len() > 0; of.inLine[k] {
			t.lines[k].push(of)
		}
		if l != nil {
			return t.begin(l, k, now), true
		}
	}
	return job{}, false
}

// places are sends that may be under way besides those that are: in all, and of
// what is tried again, which may have half of all.
type places struct{ all, again int }

func (p places) of(k kind) int {
	if k == again {
		return min(p.all, p.again)
	}
	return p.all
}

// left are a tenant's places when so many are free: as many as are free besides
// its own, so that whoever has many that do not end leaves room to all others.
func (t *tenant) left(free places) places {
	return places{free.all - t.running[fresh] - t.running[again], free.again - t.running[again]}
}

// next finds a tenant's lane whose turn it is, when so many sends are left to
// the tenant. A lane may have a quarter of what is left besides its own, so
// that slow endpoints leave some to the tenant's others. Lanes that may not
// begin leave the line, until something about them changes or time has passed.
func (t *traffic) next(of *tenant, k kind, left int, now time.Time) *lane {
	const quarter = 4
	if left <= 0 {
		return nil
	}
	for range of.lines[k].len() {
		l := of.lines[k].pop()
		switch {
		case l.queues[k].len() == 0 || !l.mayBegin(now):
			l.inLine[k] = false
			t.refresh(l, now)
		case l.running >= max(1, left/quarter):
			of.lines[k].push(l)
		default:
			l.inLine[k] = false // begin has it stand in line again
			return l
		}
	}
	return nil
}

// begin takes the next delivery of a lane.
func (t *traffic) begin(l *lane, k kind, now time.Time) job {
	j := job{lane: l, delivery: l.queues[k].pop(), kind: k, epoch: l.epoch, sub: l.sub}
	l.pace.take(now)
	l.running++
	l.tenant.running[k]++
	t.running[k]++
	t.waiting--
	t.refresh(l, now)
	return j
}

// result is what came of a job. Without a settlement the delivery is given
// back.
type result struct {
	at         time.Time
	settlement *DeliverySettlement
	attempt    *eventhook.Attempt
	isLate     bool                    // the lease left no time to send it
	sub        *eventhook.Subscription // unless nil, what is to be followed from now on
	isGone     bool                    // there is no such subscription any more
}

// end notes what came of a job, and gives the next one its place.
func (t *traffic) end(j job, r result) (next job, ok bool) {
	now := r.at
	t.mu.Lock()
	defer t.mu.Unlock()
	l := j.lane
	l.running--
	l.tenant.running[j.kind]--
	t.running[j.kind]--
	l.leave(1, weight(j.delivery))
	if r.settlement == nil {
		t.giveBack(j.delivery)
		l.isOwed = true
	} else {
		t.unsettled++
		if due := r.settlement.DueAt; !due.IsZero() {
			l.expect(due)
		}
	}
	t.learn(j, r, now)
	t.refresh(l, now)
	return t.takeLocked(now)
}

func (t *traffic) giveBack(list ...*eventhook.Delivery) {
	t.leaving = append(t.leaving, list...)
	t.left.ring()
}

// learn has a lane go by what came of a job.
func (t *traffic) learn(j job, r result, now time.Time) {
	l := j.lane
	if r.sub != nil {
		t.follow(l, r.sub)
	}
	switch {
	case r.isGone || !isSendable(l.sub):
		t.withdraw(l)
		l.isOwed = false
	case r.isLate:
		l.room = max(l.atOnce(), l.room/2)
	case r.attempt != nil:
		l.observe(r.attempt.Duration)
		l.room = min(l.room+1, max(1, t.config.QueueDeliveries/laneShare))
		t.judge(j, *r.attempt, now)
	}
}

// judge has the breaker hear of an attempt. While it is open nothing is held in
// memory, nor while the receiver wants to be left alone.
func (t *traffic) judge(j job, a eventhook.Attempt, now time.Time) {
	l := j.lane
	was := l.state
	rests := false
	if !isTrouble(a) {
		l.succeeded(j.epoch, l.sub.InFlight())
	} else if l.failed(j.epoch) {
		l.rest(now.Add(l.wait(t.chance())))
		rests = true
	}
	if after := min(askedFor(a), longestRest); after > 0 {
		l.rest(now.Add(after))
		rests = true
	}
	if rests {
		t.withdraw(l)
		l.isOwed = true
	}
	t.countOpen(was, l.state)
}

// follow has a lane go by what its subscription says now.
func (t *traffic) follow(l *lane, s *eventhook.Subscription) {
	if s == l.sub || s.Version < l.sub.Version {
		return
	}
	was := l.state
	l.follow(s)
	t.countOpen(was, l.state)
	if !isSendable(s) {
		t.withdraw(l)
	}
}

func (t *traffic) countOpen(was, is BreakerState) {
	if was != BreakerOpen && is == BreakerOpen {
		t.open++
	}
	if was == BreakerOpen && is != BreakerOpen {
		t.open--
	}
}
