package match

import (
	"context"

	"github.com/eventhook/eventhook"
)

// Match returns the subscriptions that receive an event, without a limit of steps, and
// their generation.
func (r *SubscriptionCache) Match(ctx context.Context, e *eventhook.Event) (generation int64, matched []*eventhook.Subscription, err error) {
	matcher, err := r.Get(ctx, e.TenantID)
	if err != nil {
		return 0, nil, err
	}
	matched, _ = matcher.Match(nil, e)
	return matcher.generation, matched, nil
}

// Wants returns the subscriptions that receive an event, without a limit of steps.
func (r *Matcher) Wants(e *eventhook.Event) []*eventhook.Subscription {
	matched, _ := r.Match(nil, e)
	return matched
}
