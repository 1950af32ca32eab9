package usage

// Waiting is how many tenants' totals are waited for.
func (m *Meter) Waiting() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.waiting)
}

// Held is how much a meter holds by itself: tenants it remembers, and what has
// counts to write.
func (m *Meter) Held() (remembered, due int) {
	return m.tenants.Len(), len(m.counted.list) + len(m.received.list) + len(m.failed)
}
