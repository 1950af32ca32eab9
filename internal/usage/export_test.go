package usage

// Held is how much a meter holds by itself: tenants it remembers, and what has
// counts to write.
func (m *Meter) Held() (remembered, due int) {
	return m.tenants.Len(), len(m.counted.list) + len(m.received.list) + len(m.failed)
}
