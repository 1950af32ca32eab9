package outbound

import (
	"time"

	"github.com/eventhook/eventhook"
)

// kind is whether a delivery is tried for the first time. The two wait apart,
// so that a world of dead endpoints does not stop what is new.
type kind int

const (
	fresh kind = iota
	again
)

func kindOf(d *eventhook.Delivery) kind {
	if d.RetryCount > 0 {
		return again
	}
	return fresh
}

// What a lane holds in memory.
const (
	firstRoom = 64 // deliveries, of a lane of which nothing is known
	laneShare = 8  // a lane has at most this part of the memory
)

// lane has what waits and what is under way for one subscription, and what is
// known of its endpoint. The traffic's lock guards it.
type lane struct {
	id     eventhook.SubscriptionID
	tenant *tenant
	sub    *eventhook.Subscription // as it was when it was last looked up
	queues [2]fifo[*eventhook.Delivery]
	inLine [2]bool

	held    int // reserved, waiting or under way
	bytes   int // of what waits or is under way
	running int
	breaker
	pace      pace
	restUntil time.Time     // nothing is sent before
	room      int           // what it may hold, by how much of it was sent in time
	mean      time.Duration // of its sends, of late
	isOwed    bool          // more may be due in the database
	retryAt   time.Time     // when the first retry is due that is known of; zero: none is
	isHungry  bool          // it stands in line to claim that
	usedAt    time.Time
	alarm     alarm
}

func newLane(s *eventhook.Subscription, of *tenant) *lane {
	l := &lane{id: s.ID, tenant: of, breaker: newBreaker(s.InFlight()), room: firstRoom}
	l.alarm.lane = l
	l.follow(s)
	return l
}

// isSendable reports whether a subscription is one that this gateway sends to.
func isSendable(s *eventhook.Subscription) bool {
	return s.Status == eventhook.SubscriptionActive && !s.IsForAgents() && !s.SecretsLost
}

// follow takes over what a subscription says now. Who changes where it is sent
// to, or makes it active, has it tried anew.
func (l *lane) follow(s *eventhook.Subscription) {
	if old := l.sub; old != nil && (!old.URL.Equal(s.URL) || isSendable(s) && !isSendable(old)) {
		l.breaker = breaker{state: BreakerClosed, slots: min(firstSlots, s.InFlight()), epoch: l.epoch + 1}
		l.restUntil, l.isOwed = time.Time{}, true
	}
	l.sub = s
	l.pace.set(s.RatePerSecond)
}

func (l *lane) waiting() int { return l.queues[fresh].len() + l.queues[again].len() }

// atOnce is how many sends may be under way.
func (l *lane) atOnce() int { return min(l.slots, l.sub.InFlight()) }

// isResting reports whether nothing may be sent yet, whatever waits.
func (l *lane) isResting(now time.Time) bool { return now.Before(l.restUntil) }

// mayBegin reports whether the next delivery may be sent now, as far as that is
// up to the lane.
func (l *lane) mayBegin(now time.Time) bool {
	return l.running < l.atOnce() && !l.isResting(now) && !l.pace.isSpent(now) && (l.pace.every == 0 || !now.Before(l.pace.next))
}

// most is how many deliveries the lane may hold: what it can send within half
// of a lease, as far as is known, and an open one its probe.
func (l *lane) most(now time.Time, lease time.Duration) int {
	switch {
	case l.isResting(now) || !isSendable(l.sub):
		return 0
	case l.state == BreakerOpen:
		return 1
	}
	most, span := l.room, lease/2
	if l.mean > 0 {
		most = min(most, max(1, int(span/l.mean))*l.atOnce())
	}
	if l.pace.every > 0 {
		most = min(most, max(1, int(span/l.pace.every)))
	}
	return most
}

// wakesAt is when the lane is to be looked at, though nothing happens; zero:
// never.
func (l *lane) wakesAt(now time.Time) (at time.Time) {
	if l.waiting() > 0 || l.isOwed {
		if at = l.restUntil; l.pace.every > 0 && l.pace.left > 0 && l.pace.next.After(at) {
			at = l.pace.next
		}
		if !at.After(now) {
			at = time.Time{} // it stands in line for that already
		}
	}
	if !l.retryAt.IsZero() && (at.IsZero() || l.retryAt.Before(at)) {
		at = l.retryAt
	}
	return at
}

// expect notes that a retry will be due, so that it need not be looked for.
func (l *lane) expect(due time.Time) {
	if l.retryAt.IsZero() || due.Before(l.retryAt) {
		l.retryAt = due
	}
}

// observe notes how long a send took.
func (l *lane) observe(took time.Duration) {
	const of = 8 // the last few count
	if l.mean == 0 {
		l.mean = took
	}
	l.mean += (took - l.mean) / of
}

// rest has nothing sent before a moment.
func (l *lane) rest(until time.Time) {
	if until.After(l.restUntil) {
		l.restUntil = until
	}
}
