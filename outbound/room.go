package outbound

import (
	"time"

	"github.com/eventhook/eventhook"
)

// reserve asks for room for n new deliveries of a subscription that are about
// to be stored, and tells until when to lease those that are granted. Each of
// them must be Put or Released. None are while the subscription's endpoint is in
// trouble, or while it is not this gateway that sends.
func (t *traffic) reserve(s *eventhook.Subscription, n int, now time.Time) (granted int, until time.Time) {
	until = now.Add(t.lease + s.Timeout())
	if !isSendable(s) {
		return 0, until
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return 0, until
	}
	l := t.laneOf(s, now)
	t.follow(l, s)
	most := l.most(now, t.lease)
	if l.isOwed {
		most = (most + 1) / 2 // the rest is for what has waited longer
	}
	granted = min(n, t.roomFor(l, most))
	if l.state == BreakerOpen {
		granted = 0 // a probe is one that has waited
	}
	t.hold(l, granted)
	if granted < n {
		l.isOwed = true
		t.lineUp(l, now)
	}
	return granted, until
}

// release gives reserved room back.
func (t *traffic) release(s eventhook.SubscriptionID, n int, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if l := t.lanes[s]; l != nil && n > 0 {
		l.leave(n, 0)
		t.forget(n, 0)
		t.refresh(l, now)
	}
}

// put takes deliveries for which room was reserved. Those that may not wait
// here any more are given back.
func (t *traffic) put(list []*eventhook.Delivery, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, d := range list {
		l := t.lanes[d.SubscriptionID]
		if l == nil {
			continue // no room was reserved
		}
		l.tenant.bytes += weight(d)
		l.bytes += weight(d)
		t.bytes += weight(d)
		if t.closed || l.isResting(now) || !isSendable(l.sub) {
			l.leave(1, weight(d))
			l.isOwed = true
			t.giveBack(d)
		} else {
			l.queues[kindOf(d)].push(d)
			t.waiting++
		}
		t.refresh(l, now)
	}
}

// reserveOwed asks for room for what is due of a subscription in the database, and
// tells if that is for a probe.
func (t *traffic) reserveOwed(s *eventhook.Subscription, now time.Time) (n int, isProbe bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	l := t.laneOf(s, now)
	t.follow(l, s)
	l.isOwed = true
	n = min(t.wants(l, now), t.config.BatchSize)
	t.hold(l, n)
	t.lineUp(l, now)
	return n, l.state == BreakerOpen
}

// claimed gives back what was reserved and not found in the database.
func (t *traffic) claimed(s eventhook.SubscriptionID, asked, got int, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	l := t.lanes[s]
	l.leave(asked-got, 0)
	t.forget(asked-got, 0)
	l.isOwed = got >= asked
	t.refresh(l, now)
}

// isFull reports, without a look at the subscription, that nothing of a lane may
// be claimed now, and remembers that something is due.
func (t *traffic) isFull(s eventhook.SubscriptionID, now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	l := t.lanes[s]
	if l == nil {
		return t.closed
	}
	l.isOwed = true
	if t.wants(l, now) > 0 {
		return false
	}
	t.lineUp(l, now)
	return isSendable(l.sub) // of one that was not, look whether it is
}

// takeHungry removes the lane whose turn it is to claim what is due.
func (t *traffic) takeHungry() (*eventhook.Subscription, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.hungry.len() == 0 {
		return nil, false
	}
	l := t.hungry.pop()
	l.isHungry = false
	return l.sub, true
}

// takeLeaving removes up to n of those that are to be given back. Their memory
// is theirs until they are forgotten.
func (t *traffic) takeLeaving(n int) []*eventhook.Delivery {
	t.mu.Lock()
	defer t.mu.Unlock()
	n = min(n, len(t.leaving))
	batch := append([]*eventhook.Delivery(nil), t.leaving[:n]...)
	clear(t.leaving[:n])
	if t.leaving = t.leaving[n:]; len(t.leaving) == 0 {
		t.leaving = nil
	} else {
		t.left.ring()
	}
	return batch
}

// freed notes that deliveries are settled, so many of them, or given back.
func (t *traffic) freed(list []*eventhook.Delivery, settled int) {
	bytes := 0
	for _, d := range list {
		bytes += weight(d)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	full := t.unsettled >= t.config.UnsettledDeliveries
	t.unsettled -= settled
	t.forget(len(list), bytes)
	if full {
		t.moved.ring()
	}
	if t.cramped {
		t.cramped = false
		t.roomy.ring()
	}
}

// ring looks at the lanes whose alarms have gone off, and tells when the next
// one will; false if none is set.
func (t *traffic) ring(now time.Time) (next time.Time, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for a := t.alarms.due(now); a != nil; a = t.alarms.due(now) {
		t.refresh(a.lane, now)
	}
	if len(t.alarms) == 0 {
		return time.Time{}, false
	}
	return t.alarms[0].at, true
}

// close gives back all that waits, and takes nothing more.
func (t *traffic) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	for _, l := range t.lanes {
		t.withdraw(l)
	}
}
