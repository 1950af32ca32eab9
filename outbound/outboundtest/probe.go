package outboundtest

import (
	"testing"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/outbound"
)

// Probes is an outbound.ProbeStore to check, with functions that control its environment.
type Probes struct {
	outbound.ProbeStore
	// Disable returns a new subscription that failures have disabled now. Of its deliveries,
	// in the order of their events, the first are dead and the others are held.
	Disable  func(dead, held int) (eventhook.SubscriptionID, []eventhook.DeliveryID)
	Enable   func(eventhook.SubscriptionID) // as a user does
	IsActive func(eventhook.SubscriptionID) bool
	Advance  func(by time.Duration)
}

// ProbeCases maps each rule of outbound.ProbeStore to the test that checks it. Each test needs
// a new store.
var ProbeCases = map[string]func(t *testing.T, p Probes){
	"failed probes follow after 1, 5 and 15 minutes and then every hour":  probeTimes,
	"one instance gets a probe while its lease lasts":                     probeLeased,
	"a claim gets the probes that have been due for the longest time":     probesBounded,
	"the probes of busy tenants wait":                                     probesOfBusyTenants,
	"the oldest missed delivery is claimed first, and once":               missedOldest,
	"a probe continues after a delivery":                                  missedAfter,
	"a delivery of a failed probe is claimed again":                       missedAgain,
	"a rejected delivery is not claimed again":                            missedRejected,
	"a success enables the subscription and ends its probes":              probeSucceeded,
	"a probe is due at once when the subscription is enabled by its user": probeEnabled,
}

func probesOfBusyTenants(t *testing.T, p Probes) {
	p.Disable(1, 0)
	p.Disable(1, 0)
	p.Advance(time.Minute)
	first := p.claimProbes(t, 1)
	if len(first) != 1 {
		t.Fatalf("claimed %d probes, want 1", len(first))
	}
	list, err := p.ClaimProbes(t.Context(), 10, []eventhook.TenantID{first[0].TenantID}, probeLease)
	must(t, "ClaimProbes", err)
	if len(list) != 0 {
		t.Errorf("claimed %d probes of a busy tenant, want none", len(list))
	}
	if n := len(p.claimProbes(t, 10)); n != 1 {
		t.Errorf("claimed %d probes afterwards, want 1", n)
	}
}

const probeLease = 10 * time.Minute

func (p Probes) claimProbes(t *testing.T, limit int) []outbound.Probe {
	t.Helper()
	list, err := p.ClaimProbes(t.Context(), limit, nil, probeLease)
	must(t, "ClaimProbes", err)
	return list
}

// probe claims the only due probe.
func (p Probes) probe(t *testing.T) outbound.Probe {
	t.Helper()
	list := p.claimProbes(t, 10)
	if len(list) != 1 {
		t.Fatalf("claimed %d probes, want 1", len(list))
	}
	return list[0]
}

func (p Probes) wantNoProbes(t *testing.T, claim string) {
	t.Helper()
	if n := len(p.claimProbes(t, 10)); n != 0 {
		t.Errorf("%s: claimed %d probes, want none", claim, n)
	}
}

// wantMissed claims a missed delivery.
func (p Probes) wantMissed(t *testing.T, of outbound.Probe, want eventhook.DeliveryID, wasDead bool) *outbound.Missed {
	t.Helper()
	m, err := p.ClaimMissed(t.Context(), of, lease)
	must(t, "ClaimMissed", err)
	if m == nil || m.ID != want || m.WasDead != wasDead || m.Event == nil {
		t.Fatalf("claimed %+v, want %s with its event, dead before: %t", m, want, wasDead)
	}
	return m
}

func (p Probes) wantNoneMissed(t *testing.T, of outbound.Probe) {
	t.Helper()
	m, err := p.ClaimMissed(t.Context(), of, lease)
	must(t, "ClaimMissed", err)
	if m != nil {
		t.Errorf("claimed %s, want nothing", m.ID)
	}
}

// settle settles the delivery of a probe, dead as it was before or successful.
func (p Probes) settle(t *testing.T, m *outbound.Missed, status eventhook.DeliveryStatus) {
	t.Helper()
	s := &outbound.DeliverySettlement{Delivery: m.Delivery, Status: status, IsProbe: m.WasDead}
	if status != eventhook.DeliverySuccess {
		s.LastError = "the receiver answered 503"
	}
	lost, err := p.SettleDeliveries(t.Context(), []*outbound.DeliverySettlement{s})
	must(t, "SettleDeliveries", err)
	if len(lost) > 0 {
		t.Errorf("the lease of %s was lost", m.ID)
	}
}

func (p Probes) end(t *testing.T, of outbound.Probe, result outbound.ProbeResult) {
	t.Helper()
	must(t, "EndProbe", p.EndProbe(t.Context(), of, result))
}

func must(t *testing.T, act string, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s: %v", act, err)
	}
}

func probeTimes(t *testing.T, p Probes) {
	id, _ := p.Disable(1, 0)
	for _, after := range []time.Duration{time.Minute, 4 * time.Minute, 10 * time.Minute, time.Hour, time.Hour, time.Hour} {
		p.Advance(after - time.Second)
		p.wantNoProbes(t, "a second before "+after.String())
		p.Advance(time.Second)
		probe := p.probe(t)
		if probe.SubscriptionID != id || !probe.IsHeld || probe.MaxAge != 72*time.Hour || probe.FailingSince.IsZero() {
			t.Errorf("claimed %+v, want a probe of %s", probe, id)
		}
		p.end(t, probe, outbound.ProbeFailed)
		p.wantNoProbes(t, "after a failed probe")
	}
}

func probeLeased(t *testing.T, p Probes) {
	p.Disable(1, 0)
	p.Advance(time.Minute)
	first := p.probe(t)
	p.Advance(probeLease - time.Second)
	p.wantNoProbes(t, "while the lease lasts")
	p.Advance(2 * time.Second)
	if again := p.probe(t); again.SubscriptionID != first.SubscriptionID {
		t.Errorf("claimed a probe of %s, want %s", again.SubscriptionID, first.SubscriptionID)
	}
}

func probesBounded(t *testing.T, p Probes) {
	var ids []eventhook.SubscriptionID
	for range 3 {
		id, _ := p.Disable(1, 0)
		ids = append(ids, id)
		p.Advance(time.Second)
	}
	p.Advance(time.Hour)
	list := p.claimProbes(t, 2)
	if len(list) != 2 || list[0].SubscriptionID == ids[2] || list[1].SubscriptionID == ids[2] {
		t.Errorf("claimed %+v, want the probes of %v", list, ids[:2])
	}
	if last := p.probe(t); last.SubscriptionID != ids[2] {
		t.Errorf("claimed a probe of %s, want %s", last.SubscriptionID, ids[2])
	}
}

func missedOldest(t *testing.T, p Probes) {
	_, ids := p.Disable(2, 2)
	p.Advance(time.Minute)
	probe := p.probe(t)
	for i, id := range ids {
		p.wantMissed(t, probe, id, i < 2)
	}
	p.wantNoneMissed(t, probe)
}

func missedAfter(t *testing.T, p Probes) {
	_, ids := p.Disable(2, 2)
	p.Advance(time.Minute)
	of := p.probe(t)
	for i, wasDead := range []bool{true, false, false} {
		of.After = ids[i]
		p.wantMissed(t, of, ids[i+1], wasDead)
	}
	of.After = ids[3]
	p.wantNoneMissed(t, of)
}

func missedAgain(t *testing.T, p Probes) {
	_, ids := p.Disable(2, 0)
	p.Advance(time.Minute)
	probe := p.probe(t)
	for range 3 {
		p.settle(t, p.wantMissed(t, probe, ids[0], true), eventhook.DeliveryDead)
	}
}

func missedRejected(t *testing.T, p Probes) {
	_, ids := p.Disable(2, 1)
	p.Advance(time.Minute)
	probe := p.probe(t)
	for i, id := range ids {
		m := p.wantMissed(t, probe, id, i < 2)
		p.settle(t, m, eventhook.DeliveryDead)
		must(t, "RejectMissed", p.RejectMissed(t.Context(), m.Delivery))
	}
	p.wantNoneMissed(t, probe)
}

func probeSucceeded(t *testing.T, p Probes) {
	id, ids := p.Disable(2, 0)
	p.Advance(time.Minute)
	probe := p.probe(t)
	p.settle(t, p.wantMissed(t, probe, ids[0], true), eventhook.DeliverySuccess)
	if p.IsActive(id) {
		t.Error("the subscription is active before the end of the probe")
	}
	p.end(t, probe, outbound.ProbeSucceeded)
	if !p.IsActive(id) {
		t.Error("the subscription is not active after a successful probe")
	}
	p.Advance(2 * time.Hour)
	p.wantNoProbes(t, "after a success")
}

func probeEnabled(t *testing.T, p Probes) {
	id, ids := p.Disable(1, 0)
	p.wantNoProbes(t, "before")
	p.Enable(id)
	probe := p.probe(t)
	if probe.IsHeld {
		t.Error("the probe of an active subscription is held")
	}
	p.settle(t, p.wantMissed(t, probe, ids[0], true), eventhook.DeliverySuccess)
	p.end(t, probe, outbound.ProbeSucceeded)
	p.wantNoProbes(t, "after a success")
}
