package api

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/roundrobin"
)

// lostWake is how long somebody waits at most before looking again, in case a
// wake from another instance was lost.
const lostWake = 10 * time.Second

// How many requests may wait here at once.
const (
	mostWaits      = 2000 // of one tenant
	mostWaitsOfAll = 20_000
)

// waits are the requests that wait for something to happen in the database. Of
// those that wait for the same, the first looks, whenever there may be something
// to see, and the others stand behind it: when it has got something, or goes,
// the next takes over what it knows. So a wake costs one look and not as many as
// there are waiters.
type waits struct {
	lines    *roundrobin.Queues[waitLine, outlook]
	tenants  counts
	stopping <-chan struct{}
	now      func() time.Time
}

func newWaits(stopping <-chan struct{}, now func() time.Time) *waits {
	return &waits{lines: roundrobin.NewQueues[waitLine, outlook](1), tenants: counts{of: map[eventhook.TenantID]int{}}, stopping: stopping, now: now}
}

// counts is how many requests of each tenant wait. Safe for concurrent use.
type counts struct {
	mu  sync.Mutex
	all int
	of  map[eventhook.TenantID]int // none is 0
}

// add returns the new counts.
func (c *counts) add(tenant eventhook.TenantID, n int) (ofTenant, all int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all += n
	n += c.of[tenant]
	if c.of[tenant] = n; n == 0 {
		delete(c.of, tenant)
	}
	return n, c.all
}

// waitLine names what is waited for.
type waitLine struct {
	tenant eventhook.TenantID
	what   string
}

// outlook is what the first of a line knows: when it is worth to look again.
type outlook struct {
	wake  <-chan struct{} // closed when something may have happened since the last look
	again time.Time       // look then in any case; zero: at once

	settled *eventhook.Promise // what those who wait for a promise get without looking
}

// inTurn waits until look has done what it shall do: with done or an error it is
// over. look is called in the caller's turn only; it writes into the outlook
// when to look again. The first of a line begins with what it has seen before.
// Without an error it is over, too, when patience or the server ends.
func (w *waits) inTurn(ctx context.Context, what waitLine, patience time.Duration, seen outlook, look func(*outlook) (done bool, err error)) error {
	defer w.tenants.add(what.tenant, -1)
	switch ofTenant, all := w.tenants.add(what.tenant, 1); {
	case ofTenant > mostWaits:
		return &eventhook.Error{Kind: eventhook.KindRateLimited, RetryAfter: time.Second,
			Message: fmt.Sprintf("%d requests of this tenant wait here already; ask without wait_seconds, or with fewer requests at once.", mostWaits)}
	case all > mostWaitsOfAll:
		return &eventhook.Error{Kind: eventhook.KindUnavailable, RetryAfter: time.Second,
			Message: fmt.Sprintf("%d requests wait here already; ask without wait_seconds, or try again.", mostWaitsOfAll)}
	}
	line := w.lines.Open(what)
	defer w.lines.Close(what)
	over := time.NewTimer(patience)
	defer over.Stop()
	if goOn, err := w.until(ctx, line.Slot(), nil, over.C); !goOn {
		return err
	}
	defer line.Release()
	o := &line.State
	if o.wake == nil {
		*o = seen
	}
	for {
		again := time.NewTimer(o.again.Sub(w.now()))
		goOn, err := w.until(ctx, o.wake, again.C, over.C)
		again.Stop()
		if !goOn {
			return err
		}
		o.again = time.Time{} // unless look says more
		if done, err := look(o); done {
			return err
		}
	}
}

// until waits for one of two things, and reports whether it came before the end
// of the request, of its patience or of the server.
func (w *waits) until(ctx context.Context, one <-chan struct{}, other, over <-chan time.Time) (goOn bool, err error) {
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
