package pg

import "github.com/eventhook/eventhook"

// Observer counts outcomes that only the database decides. Each call follows the commit. Methods
// must be safe for concurrent use and return at once.
type Observer interface {
	DeliveriesExpired(n int) // dead, because they became too old
	ExecutionsLost(n int)    // dead, because their last lease ran out
	SubscriptionsDisabled(by eventhook.DisabledBy, n int)
	OutagesRecovered(n int)
	ReplayEnded(status eventhook.ReplayStatus)
	PartitionDropped(table string)
}

// Observe sets the observer. It must be called before the DB is used concurrently.
func (db *DB) Observe(o Observer) { db.observer = o }

type unobserved struct{}

func (unobserved) DeliveriesExpired(int)                           {}
func (unobserved) ExecutionsLost(int)                              {}
func (unobserved) SubscriptionsDisabled(eventhook.DisabledBy, int) {}
func (unobserved) OutagesRecovered(int)                            {}
func (unobserved) ReplayEnded(eventhook.ReplayStatus)              {}
func (unobserved) PartitionDropped(string)                         {}

// noteDisabled remembers the subscriptions that entries disable, to count them after the commit.
func (m *mutation) noteDisabled(entries []eventhook.AuditEntry) {
	by := map[string]eventhook.DisabledBy{
		statusAction(eventhook.SubscriptionDisabled): eventhook.DisabledByUser,
		"webhook.disabled_via_tenant_cascade":        eventhook.DisabledByTenant,
	}
	for _, e := range entries {
		if cause, ok := by[e.Action]; ok {
			if m.disabled == nil {
				m.disabled = map[eventhook.DisabledBy]int{}
			}
			m.disabled[cause]++
		}
	}
}

// countDisabled counts the subscriptions that a committed mutation of a caller has disabled.
func (m *mutation) countDisabled() {
	for by, n := range m.disabled {
		m.db.observer.SubscriptionsDisabled(by, n)
	}
}
