package usage

// Waiting returns the number of tenants for whose totals callers wait.
func (m *Meter) Waiting() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.waiting)
}

// Retained returns the number of cached tenants and of tenants and sources with unwritten
// counts.
func (m *Meter) Retained() (cached, due int) {
	return m.tenants.Len(), len(m.dueTenants.list) + len(m.dueSources.list) + len(m.dueTallies.list) + len(m.failed) + len(m.traffic)
}
