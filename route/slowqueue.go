package route

import (
	"context"
	"sync"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/wake"
)

// Limits of a batch of the slow queue. Batches are small, so that planned events are settled soon
// and tenants alternate.
const (
	slowBatchEvents = 32                     // maximum number of events
	maxSlowPlanTime = 100 * time.Millisecond // after this time, no further event is planned
)

// slowQueue holds leased events whose routes run scripts, that need more time than the quick path
// gives, or whose effects are large. Events in the inbox do not wait for them.
//
// The queue is divided by tenant, and the tenants are served round robin. The events of one
// tenant are planned by one worker at a time, so that a single tenant never occupies all
// processors. The queue is bounded, in total and for each tenant. It is safe for concurrent use.
type slowQueue struct {
	mu      sync.Mutex
	tenants map[eventhook.TenantID]*tenantQueue
	ready   []eventhook.TenantID        // tenants with events that no worker serves, next first
	busy    map[eventhook.TenantID]bool // tenants that a worker serves
	total   amount
	max     amount // of total
	wake    wake.Signal
}

// tenantQueue holds a tenant's events in order of arrival.
type tenantQueue struct {
	events []*eventhook.Event
	amount
}

type amount struct{ events, bytes int }

func (a *amount) add(n, bytes int) { a.events, a.bytes = a.events+n, a.bytes+bytes }

// isBelow reports whether both events and bytes are below a maximum.
func (a amount) isBelow(max amount) bool { return a.events < max.events && a.bytes < max.bytes }

// atLeastOne raises zero values to 1, so that a maximum admits at least one event.
func (a amount) atLeastOne() amount { return amount{max(1, a.events), max(1, a.bytes)} }

func newSlowQueue(events, bytes int) *slowQueue {
	return &slowQueue{
		tenants: map[eventhook.TenantID]*tenantQueue{}, busy: map[eventhook.TenantID]bool{},
		max: amount{events, bytes}.atLeastOne(), wake: wake.New(1),
	}
}

// maxPerTenant is a quarter of the queue, so that one tenant cannot fill it.
func (q *slowQueue) maxPerTenant() amount {
	const share = 4
	return amount{q.max.events / share, q.max.bytes / share}.atLeastOne()
}

// put adds events. It returns the events that did not fit, because the queue or the part of their
// tenant is full. Events that a worker has taken do not count.
func (q *slowQueue) put(events []*eventhook.Event) (refused []*eventhook.Event) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, e := range events {
		tenant := q.tenants[e.TenantID]
		isFull := !q.total.isBelow(q.max)
		isTenantFull := tenant != nil && !tenant.isBelow(q.maxPerTenant())
		if isFull || isTenantFull {
			refused = append(refused, e)
			continue
		}
		q.append(e)
	}
	q.notify()
	return refused
}

// putBack adds events that were taken and not processed, even beyond the bounds.
func (q *slowQueue) putBack(events []*eventhook.Event) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, e := range events {
		q.append(e)
	}
	q.notify()
}

func (q *slowQueue) append(e *eventhook.Event) {
	tenant := q.tenants[e.TenantID]
	if tenant == nil {
		tenant = &tenantQueue{}
		q.tenants[e.TenantID] = tenant
		if !q.busy[e.TenantID] {
			q.ready = append(q.ready, e.TenantID)
		}
	}
	tenant.events = append(tenant.events, e)
	tenant.add(1, size(e))
	q.total.add(1, size(e))
}

// notify wakes a worker if a tenant is ready. The caller holds the lock.
func (q *slowQueue) notify() {
	if len(q.ready) > 0 {
		q.wake.Notify()
	}
}

// take removes up to n events, round robin over half of the ready tenants. The other half is left
// for other workers. Until release is called, no other worker gets events of the served tenants.
func (q *slowQueue) take(n int) (batch []*eventhook.Event) {
	q.mu.Lock()
	defer q.mu.Unlock()
	half := (len(q.ready) + 1) / 2
	taken := min(half, n)
	serving := append([]eventhook.TenantID(nil), q.ready[:taken]...)
	q.ready = q.ready[taken:]
	for _, id := range serving {
		q.busy[id] = true
	}
	for len(batch) < n && len(serving) > 0 {
		id := serving[0]
		serving = serving[1:]
		tenant := q.tenants[id]
		batch = append(batch, q.takeFirst(tenant))
		if len(tenant.events) > 0 {
			serving = append(serving, id)
		} else {
			delete(q.tenants, id)
		}
	}
	q.notify()
	return batch
}

// takeFirst removes the oldest event of a tenant. The caller holds the lock.
func (q *slowQueue) takeFirst(tenant *tenantQueue) *eventhook.Event {
	e := tenant.events[0]
	tenant.events[0], tenant.events = nil, tenant.events[1:]
	tenant.add(-1, -size(e))
	q.total.add(-1, -size(e))
	return e
}

// release makes the tenants of a batch from take ready again. The batch must be planned.
func (q *slowQueue) release(batch []*eventhook.Event) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, e := range batch {
		if q.busy[e.TenantID] && q.tenants[e.TenantID] != nil {
			q.ready = append(q.ready, e.TenantID)
		}
		delete(q.busy, e.TenantID)
	}
	q.notify()
}

// workSlowQueue settles events of the slow queue. It returns when working ends, or when noMoreInput
// is closed and the queue is empty.
func (p *Processor) workSlowQueue(working context.Context, noMoreInput <-chan struct{}) {
	for working.Err() == nil {
		if batch := p.slow.take(slowBatchEvents); len(batch) > 0 {
			p.process(working, p.releaseOldLeases(working, batch), slowPath)
			p.slow.release(batch)
			continue
		}
		select {
		case <-noMoreInput:
			return
		default:
		}
		select {
		case <-noMoreInput:
		case <-p.slow.wake:
		}
	}
}
