package api

import "sync"

// HeldMemory keeps the memory of answered requests reserved in the budgets, for a caller in this
// process that still uses the responses, such as a page. Where a limit permits one request to exceed
// it, all requests of a HeldMemory are one. The zero value is empty. The caller must call Release. It
// is safe for concurrent use.
type HeldMemory struct {
	mu         sync.Mutex
	kept       []*reservation
	isReleased bool
}

// Release releases the memory. Later requests release theirs when they are answered.
func (m *HeldMemory) Release() {
	m.mu.Lock()
	kept := m.kept
	m.kept, m.isReleased = nil, true
	m.mu.Unlock()
	for _, h := range kept {
		h.releaseForWait()
	}
}

// keep takes over the reservation of an answered request. It reports false after Release.
func (m *HeldMemory) keep(h *reservation) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.isReleased {
		return false
	}
	m.kept = append(m.kept, h)
	return true
}

// bytes returns the memory of the answered requests of a tenant, and of a key.
func (m *HeldMemory) bytes(of *reservation) (tenant, key int64) {
	if m == nil {
		return 0, 0
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, h := range m.kept {
		if h.tenant == of.tenant {
			tenant += h.bytes
		}
		if h.key == of.key {
			key += h.bytes
		}
	}
	return tenant, key
}
