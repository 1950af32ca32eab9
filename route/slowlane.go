package route

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/wake"
)

// What is slow is planned in small pieces, so that what is planned is settled
// soon and tenants alternate.
const (
	slowBatch = 32                     // events at most
	slowTime  = 100 * time.Millisecond // and no further one is begun after it
)

// slowLane holds leased events whose routes run scripts, have been slow, or make
// much of one event.
// They wait here and not in the inbox, so that nobody else waits for them, and
// each tenant's apart, so that tenants take turns. A tenant's are planned one
// after the other, so that one tenant alone never has all processors. Bounded,
// for each tenant too. Safe for concurrent use.
type slowLane struct {
	mu      sync.Mutex
	tenants map[eventhook.TenantID]*waiting
	turns   []eventhook.TenantID // who has events and none under way, in the order of their turns
	busy    map[eventhook.TenantID]bool
	all     amount
	most    amount
	filled  wake.Signal
}

// waiting are a tenant's events, in the order in which they came.
type waiting struct {
	events []*eventhook.Event
	amount
}

type amount struct{ events, bytes int }

func (a *amount) add(n, bytes int) { a.events, a.bytes = a.events+n, a.bytes+bytes }

// isBelow reports whether there is room below a part of most.
func (a amount) isBelow(most amount, part int) bool {
	return a.events < max(1, most.events/part) && a.bytes < max(1, most.bytes/part)
}

func newSlowLane(events, bytes int) *slowLane {
	return &slowLane{tenants: map[eventhook.TenantID]*waiting{}, busy: map[eventhook.TenantID]bool{}, most: amount{events, bytes}, filled: wake.New(1)}
}

// put adds events and returns those for which there is no room: a tenant may
// have a quarter of it, besides what has been taken.
func (l *slowLane) put(events []*eventhook.Event) (refused []*eventhook.Event) {
	const quarter = 4
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range events {
		w := l.tenants[e.TenantID]
		if !l.all.isBelow(l.most, 1) || w != nil && !w.isBelow(l.most, quarter) {
			refused = append(refused, e)
			continue
		}
		l.append(e)
	}
	l.signal()
	return refused
}

// putBack adds events that were taken and not processed, bound or no bound.
func (l *slowLane) putBack(events []*eventhook.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range events {
		l.append(e)
	}
	l.signal()
}

func (l *slowLane) append(e *eventhook.Event) {
	w := l.tenants[e.TenantID]
	if w == nil {
		w = &waiting{}
		l.tenants[e.TenantID] = w
		if !l.busy[e.TenantID] {
			l.turns = append(l.turns, e.TenantID)
		}
	}
	w.events = append(w.events, e)
	w.add(1, size(e))
	l.all.add(1, size(e))
}

func (l *slowLane) signal() {
	if len(l.turns) > 0 {
		l.filled.Notify()
	}
}

// take removes up to n events of half of the tenants, one of each in turn, so
// that other workers have some, too. Nobody else gets any of these tenants'
// until they are released.
func (l *slowLane) take(n int) (batch []*eventhook.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	half := (len(l.turns) + 1) / 2
	mine := slices.Clone(l.turns[:min(half, n)])
	l.turns = l.turns[len(mine):]
	for _, tenant := range mine {
		l.busy[tenant] = true
	}
	for len(batch) < n && len(mine) > 0 {
		tenant := mine[0]
		w := l.tenants[tenant]
		e := w.events[0]
		w.events[0], w.events = nil, w.events[1:]
		w.add(-1, -size(e))
		l.all.add(-1, -size(e))
		if mine = mine[1:]; len(w.events) > 0 {
			mine = append(mine, tenant)
		} else {
			delete(l.tenants, tenant)
		}
		batch = append(batch, e)
	}
	l.signal()
	return batch
}

// release says that what was taken is planned.
func (l *slowLane) release(batch []*eventhook.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range batch {
		if l.busy[e.TenantID] && l.tenants[e.TenantID] != nil {
			l.turns = append(l.turns, e.TenantID)
		}
		delete(l.busy, e.TenantID)
	}
	l.signal()
}

// workSlowly settles what is slow until nobody feeds the lane any more and it
// is empty, or working has ended.
func (p *Processor) workSlowly(working context.Context, fed <-chan struct{}) {
	for working.Err() == nil {
		if batch := p.slow.take(slowBatch); len(batch) > 0 {
			p.process(working, p.inTime(working, batch), slowly)
			p.slow.release(batch)
			continue
		}
		select {
		case <-fed:
			return
		default:
		}
		select {
		case <-fed:
		case <-p.slow.filled:
		}
	}
}
