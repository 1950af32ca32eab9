package outbound

import (
	"sync"

	"github.com/eventhook/eventhook"
)

// probeSlots counts the running probes of each tenant. The zero value is ready to use. Safe for
// concurrent use.
type probeSlots struct {
	mu      sync.Mutex
	running map[eventhook.TenantID]int
	all     int
}

func (s *probeSlots) add(tenant eventhook.TenantID, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running == nil {
		s.running = map[eventhook.TenantID]int{}
	}
	s.all += n
	if s.running[tenant] += n; s.running[tenant] == 0 {
		delete(s.running, tenant)
	}
}

// state returns the number of free slots, and the tenants that have at least half of the slots
// that the other tenants leave.
func (s *probeSlots) state() (free int, busy []eventhook.TenantID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for tenant, n := range s.running {
		if left := probesAtOnce - (s.all - n); 2*n >= left { //nolint:mnd // half
			busy = append(busy, tenant)
		}
	}
	return max(probesAtOnce-s.all, 0), busy
}
