package outbound

import (
	"context"
	"time"

	"github.com/eventhook/eventhook"
)

// Settle returns the settlement of a delivery after an attempt.
func Settle(now time.Time, maxAge time.Duration, chance float64, s *eventhook.Subscription, d *eventhook.Delivery, a *eventhook.Attempt) *DeliverySettlement {
	return outcomeRules{now, maxAge, chance}.settle(SubscriptionDestination(s, nil), d, a)
}

// IsTrouble reports whether an attempt speaks against its endpoint.
var IsTrouble = isOverload

// Scheduled is a subscription as the scheduler knows it.
var Scheduled = schedulerDestination

// Age is a duration in words.
var Age = age

// ClaimAround claims what is due of a subscription, which asks for it before
// something happens and after that.
func (d *Dispatcher) ClaimAround(ctx context.Context, s *eventhook.Subscription, happens func()) {
	c := d.newClaims()
	c.add(ctx, schedulerDestination(s))
	happens()
	c.add(ctx, schedulerDestination(s))
	c.submit(ctx)
}
