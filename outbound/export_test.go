package outbound

import (
	"context"
	"time"

	"github.com/eventhook/eventhook"
)

// Settle returns the settlement of a delivery after an attempt.
func Settle(now time.Time, maxAge time.Duration, chance float64, s *eventhook.Subscription, d *eventhook.Delivery, a *eventhook.Attempt) *DeliverySettlement {
	return OutcomeRules{now, maxAge, chance}.Settle(SubscriptionDestination(s, nil), d, a)
}

// IsTrouble reports whether an attempt counts against its receiver.
var IsTrouble = isOverload

// Scheduled returns the destination of a subscription for the scheduler.
var Scheduled = schedulerDestination

// Age returns a duration in words.
var Age = age

// ClaimAround requests two claims for a subscription, calls between in between, and claims the
// due deliveries.
func (d *Dispatcher) ClaimAround(ctx context.Context, s *eventhook.Subscription, between func()) {
	c := d.newClaims()
	c.add(ctx, schedulerDestination(s))
	between()
	c.add(ctx, schedulerDestination(s))
	c.submit(ctx)
}
