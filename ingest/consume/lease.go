package consume

import (
	"context"
	"slices"
	"time"

	"github.com/eventhook/eventhook"
)

// Lease is the right of this instance to consume the messages of a source.
type Lease struct {
	Source     eventhook.SourceID
	TenantSlug string
	Slug       string
	Token      int64 // of the claim
	Version    int64 // of the source
}

// Connecting is the error of the state of a source that was claimed, until its consumer has connected.
const Connecting = "the gateway is connecting to the broker"

// Report is the state of the consumer of a lease.
type Report struct {
	Lease
	State eventhook.ConsumerState
}

// Store keeps the leases. Only sources that consume messages, are enabled, and belong to an active tenant
// are leased. *pg.DB implements it.
type Store interface {
	// RenewConsumers extends leases and stores the states of their consumers. It returns the leases
	// that this instance still has, with the present versions of their sources.
	RenewConsumers(ctx context.Context, reports []Report, lease time.Duration) ([]Lease, error)
	// ConsumerDemand records that this instance takes part with a capacity. It returns the number of
	// sources to consume, and the capacities of all instances that take part, with this one.
	ConsumerDemand(ctx context.Context, capacity int) (sources int, capacities []int, err error)
	// ClaimConsumers claims at most max sources that no instance has. Sources of the tenants with the fewest leases
	// come first, and of one tenant the sources that have been free for longest. If overdue is not 0, ClaimConsumers
	// claims only sources that have been free for that time.
	ClaimConsumers(ctx context.Context, max int, lease, overdue time.Duration) ([]Lease, error)
	// ReleaseConsumers ends leases, so that other instances may claim the sources at once.
	ReleaseConsumers(ctx context.Context, leases []Lease) error
	// ConsumersChanged returns a channel that is closed when a lease was released.
	ConsumersChanged() <-chan struct{}
}

// shareOf returns the number of sources that an instance should consume: the smallest number with which all
// instances together, each within its capacity, consume all sources.
func shareOf(sources int, capacities []int) int {
	sorted := slices.Sorted(slices.Values(capacities))
	left := sources
	for i, capacity := range sorted {
		rest := len(sorted) - i
		if equal := (left + rest - 1) / rest; equal <= capacity {
			return equal
		}
		left -= capacity
	}
	if len(sorted) == 0 {
		return sources
	}
	return sorted[len(sorted)-1]
}
