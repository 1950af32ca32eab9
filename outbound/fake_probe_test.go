package outbound_test

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/outbound"
	"github.com/eventhook/eventhook/outbound/outboundtest"
)

// probeStore is a fake outbound.ProbeStore in memory. Several probers may share it.
type probeStore struct {
	mu      sync.Mutex
	outages map[eventhook.SubscriptionID]*storedOutage
}

// storedOutage is an outage of a subscription. nextProbe is zero after its end.
type storedOutage struct {
	of                    eventhook.Subscription
	since                 time.Time
	nextProbe, probeUntil time.Time
	probes                int
	missed                []*missedDelivery // oldest first
}

type missedDelivery struct {
	eventhook.Delivery
	isRejected bool
}

func newProbeStore() *probeStore {
	return &probeStore{outages: map[eventhook.SubscriptionID]*storedOutage{}}
}

// disable adds a subscription that failures have disabled now, with dead and held deliveries.
func (p *probeStore) disable(dead, held int) (eventhook.SubscriptionID, []eventhook.DeliveryID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	o := &storedOutage{since: time.Now(), nextProbe: time.Now().Add(time.Minute), of: eventhook.Subscription{ID: eventhook.NewID[eventhook.Subscription](time.Now()),
		TenantID: acme, Status: eventhook.SubscriptionDisabled, DisabledBy: eventhook.DisabledByFailures}}
	p.outages[o.of.ID] = o
	var ids []eventhook.DeliveryID
	for i := range dead + held {
		e := &eventhook.Event{ID: eventhook.NewID[eventhook.Event](time.Now().Add(time.Duration(i) * time.Millisecond)), TenantID: acme, Payload: eventhook.Payload{Body: []byte(`{}`)}}
		to := eventhook.DestinationID(o.of.ID)
		m := &missedDelivery{Delivery: eventhook.Delivery{ID: eventhook.DeliveryIDOf(e.ID, to), TenantID: acme, EventID: e.ID, Event: e, DestinationID: to,
			SubscriptionID: o.of.ID, Status: eventhook.DeliveryDead}}
		if i >= dead {
			m.Status = eventhook.DeliveryPending
		}
		o.missed, ids = append(o.missed, m), append(ids, m.ID)
	}
	return o.of.ID, ids
}

// enable makes a subscription active, as its user does.
func (p *probeStore) enable(id eventhook.SubscriptionID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	o := p.outages[id]
	o.of.Status, o.of.DisabledBy, o.nextProbe, o.probes, o.probeUntil = eventhook.SubscriptionActive, "", time.Now(), 0, time.Time{}
}

func (p *probeStore) isActive(id eventhook.SubscriptionID) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.outages[id].of.Status == eventhook.SubscriptionActive
}

func (p *probeStore) ClaimProbes(ctx context.Context, limit int, busy []eventhook.TenantID, lease time.Duration) (list []outbound.Probe, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	var due []*storedOutage
	for _, o := range p.outages {
		if !slices.Contains(busy, o.of.TenantID) && !o.nextProbe.IsZero() && !o.nextProbe.After(now) && !o.probeUntil.After(now) {
			due = append(due, o)
		}
	}
	slices.SortFunc(due, func(x, y *storedOutage) int { return x.nextProbe.Compare(y.nextProbe) })
	for _, o := range due[:min(limit, len(due))] {
		o.probeUntil = now.Add(lease)
		list = append(list, outbound.Probe{TenantID: o.of.TenantID, SubscriptionID: o.of.ID, FailingSince: o.since, MaxAge: o.of.Recovery.MaxAge(), IsHeld: o.of.HoldsDeliveries()})
	}
	return list, ctx.Err()
}

func (p *probeStore) ClaimMissed(ctx context.Context, of outbound.Probe, lease time.Duration) (*outbound.Missed, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, m := range p.outages[of.SubscriptionID].missed {
		isOpen := m.Status == eventhook.DeliveryPending || m.Status == eventhook.DeliveryFailed
		if wasDead := m.Status == eventhook.DeliveryDead; wasDead && !m.isRejected || isOpen && of.IsHeld {
			if slices.Compare(m.ID[:], of.After[:]) <= 0 {
				continue
			}
			m.Status, m.Lease = eventhook.DeliveryAcquired, eventhook.Lease{Token: m.Lease.Token + 1, Until: time.Now().Add(lease)}
			return &outbound.Missed{Delivery: new(m.Delivery), WasDead: wasDead}, ctx.Err()
		}
	}
	return nil, ctx.Err()
}

// find returns the stored delivery.
func (p *probeStore) find(d *eventhook.Delivery) *missedDelivery {
	list := p.outages[d.SubscriptionID].missed
	return list[slices.IndexFunc(list, func(m *missedDelivery) bool { return m.ID == d.ID })]
}

func (p *probeStore) RejectMissed(ctx context.Context, d *eventhook.Delivery) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.find(d).isRejected = true
	return ctx.Err()
}

func (p *probeStore) EndProbe(ctx context.Context, of outbound.Probe, result outbound.ProbeResult) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	o := p.outages[of.SubscriptionID]
	o.probeUntil = time.Time{}
	switch {
	case result == outbound.ProbeSucceeded:
		o.of.Status, o.of.DisabledBy, o.nextProbe = eventhook.SubscriptionActive, "", time.Time{}
	case result == outbound.ProbeFailed || result == outbound.ProbeEmpty:
		after := []time.Duration{4 * time.Minute, 10 * time.Minute, time.Hour}
		o.nextProbe = time.Now().Add(after[min(o.probes, 2)])
		o.probes++
	}
	return ctx.Err()
}

func (p *probeStore) SettleDeliveries(ctx context.Context, batch []*outbound.DeliverySettlement) (lost []*outbound.DeliverySettlement, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range batch {
		m := p.find(s.Delivery)
		if m.Status != eventhook.DeliveryAcquired || m.Lease.Token != s.Delivery.Lease.Token {
			lost = append(lost, s)
			continue
		}
		m.Status, m.RetryCount = s.Status, s.RetryCount
		if o := p.outages[m.SubscriptionID]; s.Disable != "" {
			o.of.DisabledBy, o.nextProbe = eventhook.DisabledByGone, time.Time{}
		}
		if s.Status == eventhook.DeliverySuccess && p.outages[m.SubscriptionID].of.Status == eventhook.SubscriptionActive {
			p.outages[m.SubscriptionID].nextProbe = time.Time{}
		}
	}
	return lost, ctx.Err()
}

// statuses returns the states of the deliveries of a subscription, oldest event first.
func (p *probeStore) statuses(id eventhook.SubscriptionID) (list []eventhook.DeliveryStatus) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, m := range p.outages[id].missed {
		list = append(list, cmp.Or(m.Status, "?"))
	}
	return list
}

// The fake of the prober's tests keeps the contract that internal/pg keeps.
func TestTheFakeProbeStoreConforms(t *testing.T) {
	for name, check := range outboundtest.ProbeCases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newProbeStore()
				check(t, outboundtest.Probes{ProbeStore: p, Disable: p.disable, Enable: p.enable, IsActive: p.isActive, Advance: time.Sleep})
			})
		})
	}
}
