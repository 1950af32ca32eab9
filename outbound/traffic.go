package outbound

import (
	"sync"
	"time"

	"github.com/eventhook/eventhook"
)

// traffic has all lanes with something in them, knows whose turn it is, and
// bounds what is in memory. Nothing that it does takes longer the more lanes
// there are, but for its sweep. Safe for concurrent use.
type traffic struct {
	config Config
	lease  time.Duration
	chance func() float64

	mu        sync.Mutex
	lanes     map[eventhook.SubscriptionID]*lane
	tenants   map[eventhook.TenantID]*tenant
	lines     [2]fifo[*tenant] // who has something that may be sent
	turn      kind
	running   [2]int
	waiting   int
	open      int // lanes
	held      int // deliveries in memory, or about to be, until they are settled or given back
	bytes     int
	unsettled int // outcomes that wait for the database
	alarms    alarms
	hungry    fifo[*lane]           // who has room for what is due in the database
	unpaced   []*lane               // who wants times to send at
	leaving   []*eventhook.Delivery // to be given back
	cramped   bool                  // a lane was refused room for want of memory
	closed    bool

	moved, starving, pacing, left bell // there is something in: lines; hungry; unpaced; leaving
	roomy                         bell // who was refused room may find some
}

// tenant has those of its lanes in line of which something may be sent.
type tenant struct {
	id      eventhook.TenantID
	lanes   map[*lane]struct{}
	lines   [2]fifo[*lane]
	inLine  [2]bool
	running [2]int
	held    int
	bytes   int
}

func newTraffic(config Config, lease time.Duration, chance func() float64) *traffic {
	return &traffic{config: config, lease: lease, chance: chance, closed: config.SendsAtOnce == 0,
		lanes: map[eventhook.SubscriptionID]*lane{}, tenants: map[eventhook.TenantID]*tenant{},
		moved: newBell(), starving: newBell(), pacing: newBell(), left: newBell(), roomy: newBell()}
}

// laneOf finds a subscription's lane, or opens one.
func (t *traffic) laneOf(s *eventhook.Subscription, now time.Time) *lane {
	l := t.lanes[s.ID]
	if l == nil {
		of := t.tenants[s.TenantID]
		if of == nil {
			of = &tenant{id: s.TenantID, lanes: map[*lane]struct{}{}}
			t.tenants[s.TenantID] = of
		}
		l = newLane(s, of)
		t.lanes[s.ID] = l
		of.lanes[l] = struct{}{}
	}
	l.usedAt = now
	return l
}

// refresh has a lane stand in line for whatever it may do now, or be looked at
// when time allows more. Call it after each change of a lane.
func (t *traffic) refresh(l *lane, now time.Time) {
	if !l.retryAt.IsZero() && !now.Before(l.retryAt) {
		l.retryAt, l.isOwed = time.Time{}, true
	}
	t.lineUp(l, now)
	if l.isOwed && !l.isHungry && t.wants(l, now) > 0 {
		l.isHungry = true
		t.hungry.push(l)
		t.starving.ring()
	}
}

// lineUp is the part of refresh that is about what the lane has in memory.
func (t *traffic) lineUp(l *lane, now time.Time) {
	for k := range l.queues {
		if l.queues[k].len() > 0 && !l.inLine[k] && l.mayBegin(now) {
			t.line(l, kind(k))
		}
	}
	if l.waiting() > 0 && !l.pace.asking && l.pace.isSpent(now) && !l.isResting(now) {
		l.pace.asking = true
		t.unpaced = append(t.unpaced, l)
		t.pacing.ring()
	}
	t.setAlarm(l, now)
}

// setAlarm is called when the lane stands in line for what it may do already.
func (t *traffic) setAlarm(l *lane, now time.Time) {
	at := l.wakesAt(now)
	if at.IsZero() {
		t.alarms.unset(&l.alarm)
	} else if t.alarms.set(&l.alarm, at) {
		t.moved.ring()
	}
}

// wants is how many deliveries a lane should claim: none until it has room for
// half of what it may hold, so that it claims many at once.
func (t *traffic) wants(l *lane, now time.Time) int {
	most := l.most(now, t.lease)
	if l.held > most/2 {
		return 0
	}
	return t.roomFor(l, most)
}

// roomFor is how many more deliveries a lane may hold of so many. A tenant has
// at most as many as are free besides, and so one alone half of them.
func (t *traffic) roomFor(l *lane, most int) int {
	wanted := min(most-l.held, t.config.QueueDeliveries/laneShare)
	if t.closed || wanted <= 0 {
		return 0
	}
	free, bytes := t.config.QueueDeliveries-t.held, t.config.QueueBytes-t.bytes
	granted := max(0, min(wanted, free, max(1, free)-l.tenant.held))
	if bytes <= 0 || l.tenant.bytes >= bytes || l.bytes >= t.config.QueueBytes/laneShare {
		granted = 0
	}
	t.cramped = t.cramped || granted == 0
	return granted
}

func (t *traffic) hold(l *lane, n int) {
	l.held += n
	l.tenant.held += n
	t.held += n
}

// leave takes deliveries out of a lane, which stay in memory for a while.
func (l *lane) leave(n, bytes int) {
	l.held -= n
	l.bytes -= bytes
	l.tenant.held -= n
	l.tenant.bytes -= bytes
}

// withdraw gives back all that waits in a lane.
func (t *traffic) withdraw(l *lane) {
	for k := range l.queues {
		for l.queues[k].len() > 0 {
			d := l.queues[k].pop()
			t.waiting--
			l.leave(1, weight(d))
			t.leaving = append(t.leaving, d)
			l.isOwed = true
		}
	}
	t.left.ring()
}

// weight is the memory that a delivery holds, but for a few words.
func weight(d *eventhook.Delivery) int {
	if d.Event == nil {
		return 0
	}
	return len(d.Event.Headers) + len(d.Event.Body)
}

// forget frees what is settled or given back.
func (t *traffic) forget(n, bytes int) {
	t.held -= n
	t.bytes -= bytes
}
