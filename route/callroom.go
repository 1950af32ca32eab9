package route

import (
	"maps"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/effects"
)

// What finds no room in the lane, or no time, is asked for again later, and not
// each time that a lease could end: a place that does not answer may have a
// backlog of any length, of which a few can be called and each costs writes.
// Those of a route come back one after the other, so that some always do and
// calls go on when the place is well again, but no later than backMost, since a
// row that waits cannot be called back. They come as fast as its calls end, and
// every backEvery at least: from a backlog of 60 000 on, each is written once in
// half of backMost at most.
const (
	backEvery = 10 * time.Millisecond
	backMost  = 10 * time.Minute
)

// pace is how long after one of a route's events the next one is asked for
// again.
func (l *callLane) pace(tenant eventhook.TenantID, route eventhook.RouteID) time.Duration {
	const least = 100 * time.Microsecond
	if t := l.tenants[tenant]; t != nil && t.routes[route] != nil {
		if between := t.routes[route].between; between > 0 {
			return min(max(between, least), backEvery)
		}
	}
	return backEvery
}

// admit grants an event room for its calls before it is settled, unless there
// is none: a tenant may have a quarter of it, and a route half of that. Routes
// of which nothing waits find room beyond their tenant's quarter, up to half, so
// that it is not taken from them by the tenant's slow ones. The event is put when
// it was settled, and else cancelled.
func (l *callLane) admit(s *effects.Settlement) bool {
	h := newHeldEvent(s)
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.tenants[s.Event.TenantID]
	if !l.hasRoom(h, t) {
		return false
	}
	if t == nil {
		t = &tenantCalls{routes: map[eventhook.RouteID]*routeCalls{}}
		l.tenants[s.Event.TenantID] = t
	}
	for c := range h.calls {
		t.route(c.action.RouteID).coming++
	}
	t.add(1, h.bytes)
	l.all.add(1, h.bytes)
	l.admitted[s] = h
	return true
}

func (l *callLane) hasRoom(h *heldEvent, t *tenantCalls) bool {
	const half, quarter, eighth = 2, 4, 8
	if t == nil {
		return l.all.isBelow(l.most, 1)
	}
	share := half
	for c := range h.calls {
		waiting := t.waitingOf(c.action.RouteID)
		if waiting >= max(1, l.most.events/eighth) {
			return false
		}
		if waiting > 0 {
			share = quarter
		}
	}
	return l.all.isBelow(l.most, 1) && t.isBelow(l.most, share)
}

// put has the calls of an event wait for their turns, if it was admitted.
func (l *callLane) put(s *effects.Settlement) {
	l.mu.Lock()
	defer l.mu.Unlock()
	h := l.admitted[s]
	if h == nil {
		return
	}
	delete(l.admitted, s)
	t := l.tenants[s.Event.TenantID]
	if len(t.turns) == 0 {
		l.turns = append(l.turns, s.Event.TenantID)
	}
	for c := range h.calls {
		t.append(c)
	}
	l.waiting += h.open
	signal(l.moved)
}

// cancel gives back the room of those events that were admitted and not put.
func (l *callLane) cancel(planned []*effects.Settlement) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range planned {
		h := l.admitted[s]
		if h == nil {
			continue
		}
		delete(l.admitted, s)
		for _, route := range h.routes {
			t := l.tenants[s.Event.TenantID]
			t.routes[route].coming--
			t.forgetIdle(route)
		}
		l.leaveLocked(h)
	}
}

// release gives the room of events back whose calls have ended.
func (l *callLane) release(batch []*heldEvent) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, h := range batch {
		l.leaveLocked(h)
	}
}

func (l *callLane) leaveLocked(h *heldEvent) {
	t := l.tenants[h.Event.TenantID]
	t.add(-1, -h.bytes)
	l.all.add(-1, -h.bytes)
	if t.events == 0 {
		delete(l.tenants, h.Event.TenantID)
	}
}

// later is when to ask again for an event some of whose calls had no room or no
// time: after least, and after those of its routes that were told so before it.
func (l *callLane) later(s *effects.Settlement, now time.Time, least time.Duration) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now.Sub(l.swept) > backMost {
		l.swept = now
		maps.DeleteFunc(l.back, func(_ eventhook.RouteID, last time.Time) bool { return last.Before(now) })
	}
	soonest, at := now.Add(least), now.Add(least)
	for i := range s.Actions {
		a := &s.Actions[i]
		if !isOwed(*a) {
			continue
		}
		next := latest(soonest, l.back[a.RouteID].Add(l.pace(s.Event.TenantID, a.RouteID)))
		if next.Sub(now) > backMost {
			next = latest(soonest, now.Add(backMost/2))
		}
		l.back[a.RouteID], at = next, latest(at, next)
	}
	return at
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
