package agents

import (
	"bytes"
	"context"
	"slices"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/outbound"
	"github.com/eventhook/eventhook/outbound/match"
	"github.com/eventhook/eventhook/outbound/schedule"
)

// Directory implements Destinations with the caches of the dispatcher.
type Directory struct {
	Subscriptions *match.SubscriptionCache
	Transports    outbound.SubscriptionTransports
	Targets       *outbound.TargetDirectory
}

// ForAgents implements Destinations.
func (d Directory) ForAgents(ctx context.Context, tenant eventhook.TenantID) ([]outbound.Destination, error) {
	matcher, err := d.Subscriptions.Get(ctx, tenant)
	if err != nil {
		return nil, err
	}
	targets, err := d.Targets.ForAgents(ctx, tenant)
	if err != nil {
		return nil, err
	}
	list := slices.Clone(targets)
	for _, s := range matcher.ForAgents() {
		list = append(list, outbound.SubscriptionDestination(s, d.Transports.To(s)))
	}
	return list, nil
}

// destinations returns the destinations that an agent with labels serves, in the order of their
// ids.
func (s *Service) destinations(ctx context.Context, tenant eventhook.TenantID, labels []string) ([]outbound.Destination, error) {
	all, err := s.Destinations.ForAgents(ctx, tenant)
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(slices.Clone(all), func(d outbound.Destination) bool {
		return !d.ForAgents || !eventhook.Serves(labels, d.Labels)
	})
	slices.SortFunc(all, func(x, y outbound.Destination) int { return bytes.Compare(x.ID[:], y.ID[:]) })
	return all, nil
}

// nextFirst returns the destinations in the order of the round robin: beginning after the one that
// was claimed last.
func (s *Service) nextFirst(tenant eventhook.TenantID, all []outbound.Destination) []outbound.Destination {
	s.mu.Lock()
	last, ok := s.served.Get(tenant)
	s.mu.Unlock()
	if !ok {
		return all
	}
	i := slices.IndexFunc(all, func(d outbound.Destination) bool { return bytes.Compare(d.ID[:], last[:]) > 0 })
	if i <= 0 {
		return all
	}
	return slices.Concat(all[i:], all[:i])
}

// reserve reserves send times for the destinations with a rate limit that have due deliveries, as
// far as their gates lack them.
func (s *Service) reserve(ctx context.Context, all []outbound.Destination, n int) error {
	var wanted []Share
	perSecond := map[eventhook.DestinationID]int{}
	for _, d := range all {
		if d.PerSecond == 0 {
			continue
		}
		s.gate(d.Destination, func(g *schedule.Gate) {
			if n := g.Wanted(n, s.Now()); n > 0 {
				wanted = append(wanted, Share{TenantID: d.TenantID, DestinationID: d.ID, Slots: d.Slots, Max: n})
				perSecond[d.ID] = d.PerSecond
			}
		})
	}
	if len(wanted) == 0 {
		return nil
	}
	due, err := s.Queue.DueForAgents(ctx, wanted)
	if err != nil || len(due) == 0 {
		return err
	}
	reservations := make([]outbound.SendReservation, len(due))
	for i, d := range due {
		reservations[i] = outbound.SendReservation{DestinationID: d.DestinationID, Count: d.Count, PerSecond: perSecond[d.DestinationID]}
	}
	starts, err := s.Queue.ReserveSends(ctx, reservations)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, d := range due {
		if g, ok := s.gates.Get(d.DestinationID); ok {
			g.Reserve(starts[i], d.Count)
		}
	}
	return nil
}

// shares returns what a claim of n deliveries may take of the destinations now; Max is 0 where send
// times must be reserved first. next is when to look again because of destinations that may not be
// sent to now; zero: all may be.
func (s *Service) shares(all []outbound.Destination, n int) (shares []Share, next time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.Now()
	for _, d := range all {
		gate := s.gateLocked(d.Destination)
		g, isProbing := gate.Look(n, now), gate.IsProbing(now)
		if g.Slots > 0 {
			shares = append(shares, Share{TenantID: d.TenantID, DestinationID: d.ID, Slots: g.Slots, Max: g.Sends, TriedFirst: g.IsProbe})
			continue
		}
		if look := now.Add(circuitProbeInterval); isProbing && look.Before(g.Next) {
			g.Next = look
		}
		if next.IsZero() || g.Next.Before(next) {
			next = g.Next
		}
	}
	return shares, next
}

// begin counts the deliveries of a claim in the gates, and returns them with their destinations.
func (s *Service) begin(tenant eventhook.TenantID, claimed []Claimed, all []outbound.Destination, shares []Share) []leasedDelivery {
	leased := make([]leasedDelivery, len(claimed))
	byID := make(map[eventhook.DestinationID]int, len(all))
	for i, d := range all {
		byID[d.ID] = i
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.Now()
	for i, x := range claimed {
		leased[i] = leasedDelivery{Claimed: x, to: all[byID[x.DestinationID]]}
		g := s.gateLocked(leased[i].to.Destination)
		g.Begin(x.Lease.Until, now)
		s.beginCircuitProbe(g, x, now)
	}
	for _, share := range slices.Backward(shares) { // the last one in the order of the claim
		if slices.ContainsFunc(claimed, func(x Claimed) bool { return x.DestinationID == share.DestinationID }) {
			s.served.Add(tenant, share.DestinationID)
			break
		}
	}
	return leased
}
