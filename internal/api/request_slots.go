package api

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/roundrobin"
)

// class says which gate the requests of an operation pass.
type class string

const (
	// reads are lists and details.
	reads class = "reads"
	// works are short changes that workers make: heartbeats, results, promises.
	works class = "works"
	// bulks change up to thousands of rows with one request.
	bulks class = "bulks"
	// trials evaluate a tenant's expressions, or send a request for a tenant.
	trials class = "trials"
	// large are requests with a body beyond smallBody, until they have ended: those
	// that wait hold next to nothing.
	large class = "large"
	// changes of the configuration wait for the tenant's turn in the store, which
	// is where their connections are taken.
	changes class = "changes"
	// ownLimits are operations with limits of their own: publishing has a queue,
	// claims and promises have waits, streams and backtests are counted.
	ownLimits class = "own"
	// fixed are answers that are in memory.
	fixed class = "fixed"
)

const (
	slotTimeout       = 5 * time.Second  // for a slot
	readTimeout       = 10 * time.Second // for all statements of a read, each of which has 5 s
	maxWaitingForSlot = 32               // waiting requests of one tenant at each gate
)

type classSlots map[class]*roundrobin.Slots[eventhook.TenantID]

func newClassSlots(l Limits) classSlots {
	slots := func(slots, perTenant int) *roundrobin.Slots[eventhook.TenantID] {
		return roundrobin.NewSlots[eventhook.TenantID](slots, perTenant, maxWaitingForSlot)
	}
	half := (l.ListConns + 1) / 2
	return classSlots{
		reads: slots(l.ListConns, half),
		// As many callers as have requests in flight may wait for a short change.
		works:  roundrobin.NewSlots[eventhook.TenantID](l.WorkConns, l.WorkConns*3/4, l.TenantRequests),
		bulks:  slots(l.WorkConns/4, max(l.WorkConns/8, 1)),
		trials: slots(32, 2),
		large:  slots(64, 2), // their memory is bounded apart from it
	}
}

// class is that of an operation: spelled out, or by its method and scope.
func (o operation) classOf() class {
	switch {
	case o.class != "":
		return o.class
	case o.method == http.MethodGet:
		return reads
	case o.scope == eventhook.ScopeWork:
		return works
	}
	return changes
}

// inTurn takes a slot of a class's gate. Without an error leave must be called.
func (h *reservation) acquireSlot(ctx context.Context, c class) (release func(), err error) {
	slots, tenant := h.slots[c], h.tenant
	if slots == nil {
		return func() {}, nil
	}
	if err := slots.Acquire(ctx, tenant, slotTimeout); err != nil {
		return nil, h.slotRefusal(err)
	}
	return func() { slots.Release(tenant) }, nil
}

func (h *reservation) slotRefusal(err error) error {
	switch {
	case errors.Is(err, roundrobin.ErrFull):
		return h.limitExceeded(refusedQueue, "Too many requests of this tenant wait for their turn; try again, with fewer at once.")
	case errors.Is(err, roundrobin.ErrTimeout):
		return h.countRefusal(refusedWait, &eventhook.Error{Kind: eventhook.KindUnavailable, RetryAfter: time.Second,
			Message: "The request has waited too long for its turn; try again."})
	}
	return err
}

// run calls a handler within the limits of a class.
func runInClass[I, O any](ctx context.Context, by caller, c class, in *I, handle func(context.Context, caller, *I) (*O, error)) (*O, error) {
	release, err := by.reservation.acquireSlot(ctx, c)
	if err != nil {
		return nil, err
	}
	defer release()
	if c != reads {
		return handle(ctx, by, in)
	}
	limited, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	out, err := handle(limited, by, in)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return nil, &eventhook.Error{Kind: eventhook.KindUnavailable, RetryAfter: time.Second, Cause: err,
			Message: "Reading takes too long; narrow the list, or try again."}
	}
	return out, err
}
