package agents

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/lifetime"
	"github.com/eventhook/eventhook/outbound"
)

const (
	// maxClaims is how often a claim repeats whose deliveries have all ended without a request.
	maxClaims = 10
	// finishTimeout is the time for the end of a claim whose agent has disconnected.
	finishTimeout = 5 * time.Second
)

// Claim leases up to c.Max due deliveries to an agent and returns them as requests, in the order in
// which they became due: deliveries to the destinations whose target labels are all among a.Labels,
// about as many of each, with at most MaxClaimBytes of bodies unless a single one is larger. It returns an empty list if nothing may be sent now; then next, unless it
// is zero, is when a destination may be sent to that cannot be now.
//
// A delivery that is too old, whose data is gone, or of which MaxAgentLeases leases in a row have
// expired, becomes dead instead. A request that cannot be composed is a failed attempt. If ctx
// ends before Claim returns, the deliveries are released.
func (s *Service) Claim(ctx context.Context, a eventhook.Agent, c eventhook.AgentClaim) (list []eventhook.AgentRequest, next time.Time, err error) {
	probe, err := s.probe(ctx, a, c)
	if err != nil {
		return nil, next, err
	}
	if probe != nil {
		return []eventhook.AgentRequest{*probe}, next, nil
	}
	for range maxClaims {
		var leased []leasedDelivery
		if leased, next, err = s.lease(ctx, a, c); err != nil || len(leased) == 0 {
			return nil, next, err
		}
		if list, err = s.requests(ctx, c, leased); len(list) > 0 || err != nil {
			return list, next, err
		}
	}
	return nil, s.Now(), nil
}

// leasedDelivery is a delivery that an agent has leased, with its destination.
type leasedDelivery struct {
	Claimed
	to     outbound.Destination
	missed *outbound.Missed // of a probe of a subscription that failures have disabled; nil: no probe
}

// lease leases due deliveries to an agent. The claims of a tenant run one after another, so that
// each of them knows what the previous one has leased.
func (s *Service) lease(ctx context.Context, a eventhook.Agent, c eventhook.AgentClaim) (leased []leasedDelivery, next time.Time, err error) {
	all, err := s.destinations(ctx, a.TenantID, a.Labels)
	if err != nil || len(all) == 0 {
		return nil, next, err
	}
	queue := s.tenants.Open(a.TenantID)
	defer s.tenants.Close(a.TenantID)
	select {
	case <-queue.Slot():
	case <-ctx.Done():
		return nil, next, ctx.Err()
	}
	defer queue.Release()
	if err := cmp.Or(s.readProbes(ctx, all), s.reserve(ctx, all, c.Max)); err != nil {
		return nil, next, err
	}
	shares, next := s.shares(s.nextFirst(a.TenantID, all), c.Max)
	shares = slices.DeleteFunc(shares, func(x Share) bool { return x.Max == 0 }) // nothing was due when reserve looked
	if len(shares) == 0 {
		return nil, next, nil
	}
	finishing, cancel := lifetime.Extend(ctx, finishTimeout)
	defer cancel()
	claimed, err := s.Queue.ClaimForAgent(finishing, Claim{Agent: a.ID, Max: c.Max, Lease: c.Lease, Shares: shares})
	if err != nil {
		return nil, next, err
	}
	s.observe(claimed)
	return s.begin(a.TenantID, claimed, all, shares), next, nil
}

func (s *Service) observe(claimed []Claimed) {
	takenOver := 0
	for _, x := range claimed {
		if x.Leases > 1 {
			takenOver++
		}
	}
	s.Observer.AgentsClaimed(len(claimed), takenOver)
}
