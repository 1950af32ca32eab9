package route

import (
	"slices"
	"sync"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/effects"
)

// callLane holds events whose own effects are settled and whose calls are to be
// made. Tenants take turns, and the routes of each take turns. Who has many
// calls under way that do not end leaves room to all others, as long as there
// is any: a tenant may have a third of what is free besides, so that one alone
// has a quarter, and a route may have of its tenant's share what is left
// besides. A route that has none may have one beyond that share, so that the
// tenant's slow routes do not hold up its others, as long as its tenant has less
// than half of all and a quarter of all stays free for shares. What waits is bounded for all, for each tenant and for each route.
// Safe for concurrent use.
type callLane struct {
	mu      sync.Mutex
	tenants map[eventhook.TenantID]*tenantCalls
	turns   []eventhook.TenantID // who has calls waiting, in the order of their turns
	all     amount               // of events, from when they are admitted until they are settled
	most    amount
	waiting int
	running int
	atOnce  int
	ended   []*heldEvent
	// admitted are those that are being settled, to be put then.
	admitted map[*effects.Settlement]*heldEvent
	// back is when the last of a route's comes back that was sent away.
	back  map[eventhook.RouteID]time.Time
	swept time.Time
	moved chan struct{} // a call may have its turn now
	ready chan struct{} // an event's calls have ended
}

// heldEvent is an event in the lane. Each call writes to its own action.
type heldEvent struct {
	*effects.Settlement
	routes []eventhook.RouteID // of each of its calls
	open   int                 // calls that wait or are under way
	bytes  int
}

// heldCall is one of its calls.
type heldCall struct {
	of     *heldEvent
	action *effects.PlannedAction
}

type tenantCalls struct {
	amount
	routes  map[eventhook.RouteID]*routeCalls
	turns   []eventhook.RouteID // which have calls waiting
	running int
}

type routeCalls struct {
	coming  int // calls of events that are admitted
	waiting []heldCall
	running int
	ended   time.Time     // when a call did last
	between time.Duration // how long that is after the one before, of late
}

// observe notes that a call of the route has ended.
func (r *routeCalls) observe(now time.Time) {
	const of = 8 // the last few count
	if !r.ended.IsZero() {
		r.between += (now.Sub(r.ended) - r.between) / of
	}
	r.ended = now
}

func newCallLane(events, bytes, atOnce int) *callLane {
	return &callLane{tenants: map[eventhook.TenantID]*tenantCalls{}, most: amount{events, bytes}, atOnce: atOnce,
		admitted: map[*effects.Settlement]*heldEvent{}, back: map[eventhook.RouteID]time.Time{},
		moved: make(chan struct{}, 1), ready: make(chan struct{}, 1)}
}

func newHeldEvent(s *effects.Settlement) *heldEvent {
	h := &heldEvent{Settlement: s, bytes: size(s.Event)}
	for c := range h.calls {
		h.open, h.routes = h.open+1, append(h.routes, c.action.RouteID)
		h.bytes += c.action.CallBytes
	}
	return h
}

// calls goes over those that are not made.
func (h *heldEvent) calls(yield func(heldCall) bool) {
	for i := range h.Actions {
		if a := &h.Actions[i]; isOwed(*a) && !yield(heldCall{h, a}) {
			return
		}
	}
}

func (t *tenantCalls) route(id eventhook.RouteID) *routeCalls {
	r := t.routes[id]
	if r == nil {
		r = &routeCalls{}
		t.routes[id] = r
	}
	return r
}

// waitingOf is how many calls of a route wait or are about to.
func (t *tenantCalls) waitingOf(route eventhook.RouteID) int {
	if r := t.routes[route]; r != nil {
		return r.coming + len(r.waiting)
	}
	return 0
}

func (t *tenantCalls) forgetIdle(route eventhook.RouteID) {
	if r := t.routes[route]; r.coming == 0 && r.running == 0 && len(r.waiting) == 0 {
		delete(t.routes, route)
	}
}

func (t *tenantCalls) append(c heldCall) {
	r := t.route(c.action.RouteID)
	r.coming--
	if len(r.waiting) == 0 {
		t.turns = append(t.turns, c.action.RouteID)
	}
	r.waiting = append(r.waiting, c)
}

// take removes the call whose turn it is, to be made and then ended; false when
// none may be made now. Whoever has none under way always may, so it looks at
// no more tenants than have some, and one.
func (l *callLane) take() (c heldCall, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	free := l.atOnce - l.running
	if free <= 0 {
		return c, false
	}
	for i, tenant := range l.turns {
		t := l.tenants[tenant]
		if c, ok = t.take(max(1, free/3)-t.running, min(l.atOnce/2-t.running, free-l.atOnce/4)); !ok {
			continue
		}
		l.waiting--
		l.running++
		if l.turns = slices.Delete(l.turns, i, i+1); len(t.turns) > 0 {
			l.turns = append(l.turns, tenant)
		}
		return c, true
	}
	return c, false
}

// take removes the tenant's next call when left is how many it may have under
// way besides those it has, and spare how many if no route has more than one
// of them.
func (t *tenantCalls) take(left, spare int) (c heldCall, ok bool) {
	for i, route := range t.turns {
		r := t.routes[route]
		if r.running >= left && (r.running > 0 || spare <= 0) {
			continue
		}
		c, r.waiting[0] = r.waiting[0], heldCall{}
		r.waiting = r.waiting[1:]
		r.running++
		t.running++
		if t.turns = slices.Delete(t.turns, i, i+1); len(r.waiting) > 0 {
			t.turns = append(t.turns, route)
		}
		return c, true
	}
	return c, false
}

// end notes that a call that was taken has ended. With the last of its event's
// the event is ready to be settled.
func (l *callLane) end(c heldCall, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.tenants[c.of.Event.TenantID]
	l.running--
	t.running--
	t.routes[c.action.RouteID].running--
	t.routes[c.action.RouteID].observe(now)
	t.forgetIdle(c.action.RouteID)
	signal(l.moved)
	l.closeLocked(c)
}

func (l *callLane) closeLocked(c heldCall) {
	if c.of.open--; c.of.open == 0 {
		l.ended = append(l.ended, c.of)
		signal(l.ready)
	}
}

// drop ends all calls that wait, without their having been made.
func (l *callLane) drop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, t := range l.tenants {
		for _, r := range t.routes {
			for _, c := range r.waiting {
				l.closeLocked(c)
			}
			r.waiting = nil
		}
		t.turns = nil
	}
	l.turns, l.waiting = nil, 0
}

// takeEnded removes up to n events whose calls have ended. Their room is theirs
// until they are released.
func (l *callLane) takeEnded(n int) []*heldEvent {
	l.mu.Lock()
	defer l.mu.Unlock()
	n = min(n, len(l.ended))
	batch := slices.Clone(l.ended[:n])
	if l.ended = slices.Delete(l.ended, 0, n); len(l.ended) > 0 {
		signal(l.ready)
	}
	return batch
}

// counts are the calls that have not had their turn, and those under way.
func (l *callLane) counts() (waiting, running int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.waiting, l.running
}

func (l *callLane) isWaiting() bool {
	waiting, _ := l.counts()
	return waiting > 0
}

// signal tells who waits on c; it need not be told twice.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
