package match

import (
	"context"

	"github.com/eventhook/eventhook"
)

// Match returns the subscriptions that get an event, without a limit, and the
// generation against which it was matched.
func (r *SubscriptionCache) Match(ctx context.Context, e *eventhook.Event) (generation int64, matched []*eventhook.Subscription, err error) {
	roster, err := r.Get(ctx, e.TenantID)
	if err != nil {
		return 0, nil, err
	}
	matched, _ = roster.Match(nil, e)
	return roster.generation, matched, nil
}

// Wants returns the subscriptions that get an event, without a limit.
func (r *Matcher) Wants(e *eventhook.Event) []*eventhook.Subscription {
	matched, _ := r.Match(nil, e)
	return matched
}
