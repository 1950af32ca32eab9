package api

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/roundrobin"
)

// fallbackInterval is the longest time between two checks of a waiting request, in
// case a notification from another instance was lost.
const fallbackInterval = 10 * time.Second

// Limits of concurrently waiting requests on this instance.
const (
	maxTenantWaits   = 2000 // of one tenant
	maxInstanceWaits = 20_000
)

// waitQueues hold the requests that wait for a change in the database, such as due
// work or a settled promise. Requests with the same waitKey form a queue. Only the
// first request of a queue checks the database, after each wake-up. When it is done
// or gives up, the next request takes over its waitState. So a wake-up costs one
// check per queue, not one per request.
type waitQueues struct {
	queues   *roundrobin.Queues[waitKey, waitState]
	tenants  waitCounts
	stopping <-chan struct{}
	now      func() time.Time
}

func newWaitQueues(stopping <-chan struct{}, now func() time.Time) *waitQueues {
	return &waitQueues{queues: roundrobin.NewQueues[waitKey, waitState](1), tenants: waitCounts{of: map[eventhook.TenantID]int{}}, stopping: stopping, now: now}
}

// waitCounts counts the waiting requests per tenant. It is safe for concurrent use.
type waitCounts struct {
	mu  sync.Mutex
	all int
	of  map[eventhook.TenantID]int // without entries of 0
}

// add adds n and returns the new counts.
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

// waitKey identifies the change that a queue waits for.
type waitKey struct {
	tenant  eventhook.TenantID
	subject string
}

// waitState is the state of a queue, owned by its first request: when to check
// again.
type waitState struct {
	wake    <-chan struct{} // closed when there may be a change since the last check
	checkAt time.Time       // check at this time without a wake-up; zero: at once

	settled *eventhook.Promise // result for requests that wait for the same promise
}

// wait calls check after each wake-up until check returns done or an error, or until
// patience or the server ends; the latter two are not errors. Calls of check for one
// key do not overlap. check stores the next wake-up in the waitState; the first
// request of a new queue starts with initial. The error is KindRateLimited or
// KindUnavailable if too many requests wait.
func (w *waitQueues) wait(ctx context.Context, key waitKey, patience time.Duration, initial waitState, check func(*waitState) (done bool, err error)) error {
	defer w.tenants.add(key.tenant, -1)
	switch ofTenant, all := w.tenants.add(key.tenant, 1); {
	case ofTenant > maxTenantWaits:
		return &eventhook.Error{Kind: eventhook.KindRateLimited, RetryAfter: time.Second,
			Message: fmt.Sprintf("The tenant has reached its limit of %d waiting requests; omit wait_seconds, or send fewer concurrent requests.", maxTenantWaits)}
	case all > maxInstanceWaits:
		return &eventhook.Error{Kind: eventhook.KindUnavailable, RetryAfter: time.Second,
			Message: fmt.Sprintf("This instance has reached its limit of %d waiting requests; omit wait_seconds, or try again.", maxInstanceWaits)}
	}
	queue := w.queues.Open(key)
	defer w.queues.Close(key)
	timeout := time.NewTimer(patience)
	defer timeout.Stop()
	if proceed, err := w.until(ctx, queue.Slot(), nil, timeout.C); !proceed {
		return err
	}
	defer queue.Release()
	state := &queue.State
	if state.wake == nil {
		*state = initial
	}
	for {
		next := time.NewTimer(state.checkAt.Sub(w.now()))
		proceed, err := w.until(ctx, state.wake, next.C, timeout.C)
		next.Stop()
		if !proceed {
			return err
		}
		state.checkAt = time.Time{} // default; check may set another time
		if done, err := check(state); done {
			return err
		}
	}
}

// until waits for a wake-up or a timer. proceed is false if the request, its patience
// or the server ended first.
func (w *waitQueues) until(ctx context.Context, wake <-chan struct{}, timer, timeout <-chan time.Time) (proceed bool, err error) {
	select {
	case <-wake:
		return true, nil
	case <-timer:
		return true, nil
	case <-timeout:
	case <-w.stopping:
	case <-ctx.Done():
		return false, ctx.Err()
	}
	return false, nil
}
