package api

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/roundrobin"
)

// class is a group of operations that share slots: a limit of concurrent requests on
// this instance, with a round robin between tenants.
type class string

const (
	// reads are the operations that list or get.
	reads class = "reads"
	// works are short changes by workers: heartbeats, results, promises.
	works class = "works"
	// bulks change up to thousands of rows per request.
	bulks class = "bulks"
	// trials evaluate expressions of a tenant, or send a request to one of its receivers.
	trials class = "trials"
	// agentClaims are the claims of agents, while they do not wait.
	agentClaims class = "agent_claims"
	// large are requests with a body larger than smallBody, in addition to the class of
	// their operation. A request that waits holds almost no memory.
	large class = "large"
	// changes are changes of the configuration. They have no slots here: the store runs
	// a round robin between tenants for the connections of changes.
	changes class = "changes"
	// ownLimits are operations with specific limits: the queue of publishing, the wait
	// queues of claims and promises, the number of streams and of backtests.
	ownLimits class = "own"
	// fixed are operations whose response is in memory.
	fixed class = "fixed"
)

const (
	slotTimeout       = 5 * time.Second  // longest wait for a slot
	readTimeout       = 10 * time.Second // of all statements of a read; each has a timeout of 5 s
	maxWaitingForSlot = 32               // waiting requests of one tenant per class
)

type classSlots map[class]*roundrobin.Slots[eventhook.TenantID]

// newClassSlots returns the slots of each class. With the default limits, no tenant can
// use all slots of a class, so that a request of another tenant finds a free slot or is
// next.
func newClassSlots(l Limits) classSlots {
	const (
		trialSlots, trialsPerTenant = 32, 2
		claimSlots, claimsPerTenant = 32, 8
		largeSlots, largePerTenant  = 64, 2 // memory has its own limit
	)
	slots := func(atOnce, perTenant int) *roundrobin.Slots[eventhook.TenantID] {
		return roundrobin.NewSlots[eventhook.TenantID](atOnce, perTenant, maxWaitingForSlot)
	}
	readsPerTenant := (l.ListConns + 1) / 2
	worksPerTenant := l.WorkConns * 3 / 4
	bulkSlots, bulksPerTenant := l.WorkConns/4, max(l.WorkConns/8, 1) // leave connections for short changes
	return classSlots{
		reads: slots(l.ListConns, readsPerTenant),
		// Every request in flight of a tenant may wait for a short change.
		works:  roundrobin.NewSlots[eventhook.TenantID](l.WorkConns, worksPerTenant, l.TenantRequests),
		bulks:  slots(bulkSlots, bulksPerTenant),
		trials: slots(trialSlots, trialsPerTenant),
		// Claims that have waited come at once, when the time of their next look is over.
		agentClaims: roundrobin.NewSlots[eventhook.TenantID](claimSlots, claimsPerTenant, maxTenantWaits),
		large:       slots(largeSlots, largePerTenant),
	}
}

// classOf returns the class of an operation, by default derived from its method and
// scope.
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

// acquireSlot waits for a slot of a class, for up to slotTimeout. Without an error,
// release must be called. The error is KindRateLimited if too many requests of the
// tenant wait, and KindUnavailable after the timeout.
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

// slotRefusal translates errors of the round robin into refusals.
func (h *reservation) slotRefusal(err error) error {
	switch {
	case errors.Is(err, roundrobin.ErrFull):
		return h.limitExceeded(refusedQueue, "Too many requests of the tenant wait for a free slot; try again with fewer concurrent requests.")
	case errors.Is(err, roundrobin.ErrTimeout):
		return h.countRefusal(refusedWait, &eventhook.Error{Kind: eventhook.KindUnavailable, RetryAfter: time.Second,
			Message: "The request waited too long for a free slot; try again."})
	}
	return err
}

// runInClass calls a handler in a slot of a class. Reads are also limited to
// readTimeout.
func runInClass[I, O any](ctx context.Context, by caller, c class, in *I, handle func(context.Context, caller, *I) (*O, error)) (*O, error) {
	release, err := by.reservation.acquireSlot(ctx, c)
	if err != nil {
		return nil, err
	}
	defer release()
	if err := by.reservation.reserve(0); err != nil { // others may have exceeded the limit meanwhile
		return nil, err
	}
	if c != reads {
		return handle(ctx, by, in)
	}
	limited, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	out, err := handle(limited, by, in)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return nil, &eventhook.Error{Kind: eventhook.KindUnavailable, RetryAfter: time.Second, Cause: err,
			Message: "Reading timed out; narrow the list, or try again."}
	}
	return out, err
}
