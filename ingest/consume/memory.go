package consume

import (
	"sync"

	"github.com/eventhook/eventhook"
)

// tenantFraction: a tenant can use 1/tenantFraction of the memory of an instance.
const tenantFraction = 2

// memory limits the bytes that the consumers of an instance may hold. A consumer reserves its bytes before it connects
// to its broker. A consumer that is alone in a share may exceed the share, so that a source with a large limit is
// consumed.
type memory struct {
	max int64 // bytes

	mu      sync.Mutex
	all     int64
	tenants map[eventhook.TenantID]int64
}

func newMemory(max int64) *memory {
	return &memory{max: max, tenants: map[eventhook.TenantID]int64{}}
}

// reserve returns false if a share is full. Otherwise release must be called.
func (m *memory) reserve(tenant eventhook.TenantID, bytes int64) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	isFull := func(used, max int64) bool { return used > 0 && used+bytes > max }
	if isFull(m.all, m.max) || isFull(m.tenants[tenant], m.max/tenantFraction) {
		return false
	}
	m.all += bytes
	m.tenants[tenant] += bytes
	return true
}

func (m *memory) release(tenant eventhook.TenantID, bytes int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.all -= bytes
	if m.tenants[tenant] -= bytes; m.tenants[tenant] == 0 {
		delete(m.tenants, tenant)
	}
}
