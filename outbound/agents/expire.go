package agents

import (
	"context"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/outbound"
)

var _ outbound.UnclaimedDeliveries = (*Service)(nil)

// Expire implements outbound.UnclaimedDeliveries. Deliveries that became too old record an outage of
// their subscription since the oldest of them, so that the first success of an agent recovers them.
func (s *Service) Expire(ctx context.Context, of eventhook.Destination, limit int) (int, error) {
	to, err := s.Directory.Destination(ctx, of)
	if err != nil || !to.ForAgents {
		return 0, err
	}
	list, err := s.Queue.ExpiredForAgents(ctx, of.ID(), s.Now().Add(-s.config.MaxAge), limit)
	if err != nil {
		return 0, err
	}
	var settlements []*outbound.DeliverySettlement
	for _, x := range list {
		if settlement := s.unsendable(leasedDelivery{Claimed: x, to: to}); settlement != nil {
			settlement.IsStale = false // it becomes dead also while the outage is known: there may never be an agent
			settlements = append(settlements, settlement)
		}
	}
	if _, err := s.settle(ctx, settlements); err != nil {
		return 0, err
	}
	return len(list), nil
}
