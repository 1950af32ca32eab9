package pg

import (
	"slices"
	"sync"

	"github.com/eventhook/eventhook"
)

// maxServed limits the tenants of a round.
const maxServed = 1000

// replayRound is the round robin of tenants whose replays this instance leases: a tenant with
// thousands of replays delays the replays of another tenant by one step. The zero value is ready to
// use. Safe for concurrent use.
type replayRound struct {
	mu     sync.Mutex
	served []eventhook.TenantID // tenants that had a step in this round
}

// skipped returns the tenants that must wait for the next round; empty at its beginning.
func (t *replayRound) skipped() []eventhook.TenantID {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.served)
}

// begin starts the next round.
func (t *replayRound) begin() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.served = nil
}

// add records a step of a tenant.
func (t *replayRound) add(tenant eventhook.TenantID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.served) >= maxServed {
		t.served = nil
	}
	if !slices.Contains(t.served, tenant) {
		t.served = append(t.served, tenant)
	}
}
