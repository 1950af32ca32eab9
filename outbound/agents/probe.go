package agents

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/lifetime"
	"github.com/eventhook/eventhook/outbound"
)

// probeInterval is the shortest time between two looks for the probes of active subscriptions.
const probeInterval = 5 * time.Second

// probeClaim is a leased probe of a destination that an agent claims.
type probeClaim struct {
	outbound.Probe
	agent eventhook.AgentID
	claim eventhook.AgentClaim
	to    outbound.Destination
}

// probe leases the oldest missed delivery of a subscription in an outage, if its probe is due and
// the agent has its target labels. It returns nil without such a delivery. As in
// the probes of the gateway, the next delivery is tried if one cannot be sent. If the agent does not
// report the delivery, the next probe follows when the lease ends.
func (s *Service) probe(ctx context.Context, a eventhook.Agent, c eventhook.AgentClaim) (*eventhook.AgentRequest, error) {
	probed, err := s.probed(ctx, a)
	if err != nil {
		return nil, err
	}
	for range probed {
		p, err := s.Queue.ClaimProbeForAgent(ctx, slices.Collect(maps.Keys(probed)), c.Lease)
		if err != nil || p == nil {
			return nil, err
		}
		request, err := s.tryMissed(ctx, probeClaim{*p, a.ID, c, probed[p.SubscriptionID]})
		if request != nil || err != nil {
			return request, err
		}
	}
	return nil, nil
}

// probed returns the subscriptions whose probes the agent makes: those with its target labels. While
// none of them is disabled by failures, it returns nil except once per probeInterval: most claims
// cost no statement.
func (s *Service) probed(ctx context.Context, a eventhook.Agent) (map[eventhook.SubscriptionID]outbound.Destination, error) {
	all, err := s.Destinations.ForAgents(ctx, a.TenantID)
	if err != nil {
		return nil, err
	}
	probed, isHeld := map[eventhook.SubscriptionID]outbound.Destination{}, false
	for _, d := range all {
		if (d.Held || d.ForAgents) && d.RouteID.IsZero() && eventhook.Serves(a.Labels, d.Labels) {
			probed[eventhook.SubscriptionID(d.ID)] = d
			isHeld = isHeld || d.Held
		}
	}
	if len(probed) == 0 || !isHeld && !s.beginsProbe(waitKey{a.TenantID, Labels(a)}) {
		return nil, nil
	}
	return probed, nil
}

// beginsProbe reports whether a claim looks for probes of active subscriptions, once per
// probeInterval for each set of labels.
func (s *Service) beginsProbe(key waitKey) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.Now()
	if last, ok := s.probedAt.Get(key); ok && now.Sub(last) < probeInterval {
		return false
	}
	s.probedAt.Add(key, now)
	return true
}

// tryMissed returns the request of the first missed delivery that can be sent. Without one, it ends
// the probe and returns nil. After an error, the probe is repeated when its lease ends.
func (s *Service) tryMissed(ctx context.Context, p probeClaim) (*eventhook.AgentRequest, error) {
	finishing, cancel := lifetime.Extend(ctx, finishTimeout)
	defer cancel()
	result := outbound.ProbeRejected
	for n := 0; n < outbound.MaxTried && (result == outbound.ProbeRejected || result == outbound.ProbeUnsent); n++ {
		missed, err := s.Queue.ClaimMissedForAgent(finishing, p.agent, p.Probe, p.claim.Lease)
		if err != nil {
			return nil, err
		}
		if missed == nil {
			result = outbound.ProbeEmpty
			break
		}
		x := s.composeMissed(ctx, p, missed)
		if x.request != nil {
			return x.request, nil
		}
		if err := s.settleMissed(finishing, x); err != nil {
			return nil, err
		}
		result, p.After = x.probe, missed.ID
	}
	if result == outbound.ProbeUnsent {
		result = outbound.ProbeFailed
	}
	s.endProbe(finishing, p.Probe, result)
	return nil, nil
}

// composeMissed composes the request of a missed delivery. If ctx ends, the delivery has its former
// state again, and the probe is due again.
func (s *Service) composeMissed(ctx context.Context, p probeClaim, missed *outbound.Missed) composed {
	composing, cancel := context.WithTimeout(ctx, composeTimeout(p.claim))
	defer cancel()
	x := s.composeSafely(composing, p.claim, leasedDelivery{Claimed: Claimed{Delivery: missed.Delivery}, to: p.to, missed: missed})
	if x.settlement == nil && (x.request == nil || ctx.Err() != nil) {
		x.request = nil
		x.probe, x.settlement = outbound.ProbeOutcome(p.to, missed, &eventhook.Attempt{ErrorClass: eventhook.ErrorBusy})
	}
	return x
}

// settleMissed settles a missed delivery that was not sent.
func (s *Service) settleMissed(ctx context.Context, x composed) error {
	_, err := s.settle(ctx, []*outbound.DeliverySettlement{x.settlement})
	if err == nil && x.probe == outbound.ProbeRejected {
		err = s.Queue.RejectMissed(ctx, x.settlement.Delivery)
	}
	return err
}

// reportedProbe stores the result of a probe that an agent has sent. If that fails, the probe is
// repeated.
func (s *Service) reportedProbe(ctx context.Context, d *eventhook.Delivery, result outbound.ProbeResult) {
	if result == outbound.ProbeRejected {
		if err := s.Queue.RejectMissed(ctx, d); err != nil {
			s.Log.Warn("cannot exclude a delivery from the probes of agents; it is sent again", "delivery", d.ID, "trace_id", d.Trace(), "error", err)
			return
		}
	}
	s.endProbe(ctx, outbound.Probe{TenantID: d.TenantID, SubscriptionID: d.SubscriptionID, IsHeld: true}, result)
}

func (s *Service) endProbe(ctx context.Context, p outbound.Probe, result outbound.ProbeResult) {
	if err := s.Queue.EndProbe(ctx, p, result); err != nil {
		s.Log.Warn("cannot store the result of a probe of an agent; it is repeated", "subscription", p.SubscriptionID, "error", err)
	}
}
