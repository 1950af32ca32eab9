package telemetry

import (
	"context"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/eventhook/eventhook"
)

// maxTenants is the number of tenants with series of their own.
const maxTenants = 500

// tenantMetrics count by tenant, if the setting metrics.tenant_label is on. Counts are collected by
// the ids of tenants, and added to the series when their slugs are known.
type tenantMetrics struct {
	events, deliveries *prometheus.CounterVec
	isOn               bool

	mu      sync.Mutex
	counts  map[tenantCount]int
	labels  map[eventhook.TenantID]string
	isLabel map[string]bool
}

// tenantCount is what is counted: settled attempts at deliveries by their status, or events.
type tenantCount struct {
	tenant eventhook.TenantID
	status eventhook.DeliveryStatus // "" counts events
}

func newTenantMetrics(r *registry) *tenantMetrics {
	r.section("Tenants")
	tenant := Label{Name: "tenant", Open: "slugs of tenants, at most 500, then `other`"}
	const note = "Only with `EVENTHOOK_METRICS_TENANT_LABEL=true` (`metrics.tenant_label`); otherwise the metric has no series. " +
		"The series of a tenant begins with its first count; that of `other` exists from the start."
	return &tenantMetrics{
		counts: map[tenantCount]int{}, labels: map[eventhook.TenantID]string{}, isLabel: map[string]bool{},
		events: r.counterVec(Family{Name: "tenant_events_total", Help: "Stored webhooks, by tenant.", Note: note,
			Look: "the load rises: which tenant causes it?", Labels: []Label{tenant}}),
		deliveries: r.counterVec(Family{Name: "tenant_deliveries_total", Help: "Settled attempts at deliveries, by tenant and status of the delivery afterwards.", Note: note,
			Look: "deliveries fail: whose?", Labels: []Label{tenant, {Name: "status", Values: deliveryStatuses}}}),
	}
}

// add counts the elements of a batch.
func addTenants[T any](m *tenantMetrics, batch []T, of func(T) tenantCount) {
	if !m.isOn {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, x := range batch {
		m.counts[of(x)]++
	}
}

// WatchTenants counts events and deliveries by tenant from now on, and adds the counts to their
// series every interval until ctx ends. slugs returns the slugs of tenants. EnableTenants must be
// called before. WatchTenants always returns nil.
func (m *Metrics) WatchTenants(ctx context.Context, slugs func(context.Context, []eventhook.TenantID) (map[eventhook.TenantID]string, error), w Watch) error {
	return w.run(ctx, func() {
		unknown := m.tenants.unknown()
		found := map[eventhook.TenantID]string{}
		if len(unknown) > 0 {
			var err error
			if found, err = slugs(ctx, unknown); !w.succeeded(ctx, "read the slugs of tenants", err) {
				return
			}
		}
		m.tenants.publish(unknown, found)
	})
}

// EnableTenants begins to count by tenant. It must be called before the first count.
func (m *Metrics) EnableTenants() {
	m.tenants.isOn = true
	m.tenants.events.WithLabelValues(other)
	for _, status := range deliveryStatuses {
		m.tenants.deliveries.WithLabelValues(other, status)
	}
}

// unknown returns the tenants with counts whose slugs are not known.
func (m *tenantMetrics) unknown() (ids []eventhook.TenantID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	seen := map[eventhook.TenantID]bool{}
	for c := range m.counts {
		if _, ok := m.labels[c.tenant]; !ok && !seen[c.tenant] && len(m.isLabel) < maxTenants {
			seen[c.tenant] = true
			ids = append(ids, c.tenant)
		}
	}
	return ids
}

// publish adds the counts to their series. found has the slugs of tenants that were unknown.
func (m *tenantMetrics) publish(unknown []eventhook.TenantID, found map[eventhook.TenantID]string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, id := range unknown {
		if slug := found[id]; slug != "" && len(m.isLabel) < maxTenants {
			m.labels[id], m.isLabel[slug] = slug, true
		}
	}
	for c, n := range m.counts {
		label, ok := m.labels[c.tenant]
		if !ok {
			label = other
		}
		if c.status == "" {
			m.events.WithLabelValues(label).Add(float64(n))
		} else {
			m.deliveries.WithLabelValues(label, string(c.status)).Add(float64(n))
		}
	}
	clear(m.counts)
}
