package api

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/roundrobin"
)

// fallbackInterval is how long somebody waits at most before looking again, in case a
// wake from another instance was lost.
const fallbackInterval = 10 * time.Second

// How many requests may wait here at once.
const (
	maxTenantWaits   = 2000 // of one tenant
	maxInstanceWaits = 20_000
)

// waits are the requests that wait for something to happen in the database. Of
// those that wait for the same, the first looks, whenever there may be something
// to see, and the others stand behind it: when it has got something, or goes,
// the next takes over what it knows. So a wake costs one look and not as many as
// there are waiters.
type waitQueues struct {
	queues   *roundrobin.Queues[waitKey, waitState]
	tenants  waitCounts
	stopping <-chan struct{}
	now      func() time.Time
}

func newWaitQueues(stopping <-chan struct{}, now func() time.Time) *waitQueues {
	return &waitQueues{queues: roundrobin.NewQueues[waitKey, waitState](1), tenants: waitCounts{of: map[eventhook.TenantID]int{}}, stopping: stopping, now: now}
}

// counts is how many requests of each tenant wait. Safe for concurrent use.
type waitCounts struct {
	mu  sync.Mutex
	all int
	of  map[eventhook.TenantID]int // none is 0
}

// add returns the new counts.
func (c *waitCounts) add(tenant eventhook.TenantID, n int) (ofTenant, all int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all += n
	n += c.of[tenant]
	if c.of[tenant] = n; n == 0 {
		delete(c.of, tenant)
	}
	return n, c.all
}

// waitKey names what is waited for.
type waitKey struct {
	tenant  eventhook.TenantID
	subject string
}

// outlook is what the first of a line knows: when it is worth to look again.
type waitState struct {
	wake    <-chan struct{} // closed when something may have happened since the last look
	checkAt time.Time       // look then in any case; zero: at once

	settled *eventhook.Promise // what those who wait for a promise get without looking
}

// inTurn waits until look has done what it shall do: with done or an error it is
// over. look is called in the caller's turn only; it writes into the outlook
// when to look again. The first of a line begins with what it has seen before.
// Without an error it is over, too, when patience or the server ends.
func (w *waitQueues) wait(ctx context.Context, key waitKey, patience time.Duration, initial waitState, check func(*waitState) (done bool, err error)) error {
	defer w.tenants.add(key.tenant, -1)
	switch ofTenant, all := w.tenants.add(key.tenant, 1); {
	case ofTenant > maxTenantWaits:
		return &eventhook.Error{Kind: eventhook.KindRateLimited, RetryAfter: time.Second,
			Message: fmt.Sprintf("%d requests of this tenant wait here already; ask without wait_seconds, or with fewer requests at once.", maxTenantWaits)}
	case all > maxInstanceWaits:
		return &eventhook.Error{Kind: eventhook.KindUnavailable, RetryAfter: time.Second,
			Message: fmt.Sprintf("%d requests wait here already; ask without wait_seconds, or try again.", maxInstanceWaits)}
	}
	queue := w.queues.Open(key)
	defer w.queues.Close(key)
	over := time.NewTimer(patience)
	defer over.Stop()
	if proceed, err := w.until(ctx, queue.Slot(), nil, over.C); !proceed {
		return err
	}
	defer queue.Release()
	o := &queue.State
	if o.wake == nil {
		*o = initial
	}
	for {
		next := time.NewTimer(o.checkAt.Sub(w.now()))
		proceed, err := w.until(ctx, o.wake, next.C, over.C)
		next.Stop()
		if !proceed {
			return err
		}
		o.checkAt = time.Time{} // unless look says more
		if done, err := check(o); done {
			return err
		}
	}
}

// until waits for one of two things, and reports whether it came before the end
// of the request, of its patience or of the server.
func (w *waitQueues) until(ctx context.Context, one <-chan struct{}, other, over <-chan time.Time) (proceed bool, err error) {
	select {
	case <-one:
		return true, nil
	case <-other:
		return true, nil
	case <-over:
	case <-w.stopping:
	case <-ctx.Done():
		return false, ctx.Err()
	}
	return false, nil
}
