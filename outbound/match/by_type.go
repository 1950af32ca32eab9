package match

import (
	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/filter"
)

// ByType returns a function that reports whether events of a type, which the owner of s may
// see, match one of the patterns.
func ByType(s *eventhook.Subscription, patterns []string) func(eventType string) bool {
	index := filter.NewTypeIndex([][]string{patterns})
	return func(eventType string) (ok bool) {
		if s.IsOperator() || eventhook.IsVisibleToTenants(eventType) {
			index.Each(eventType, func(int) { ok = true })
		}
		return ok
	}
}

// NeedsEvent reports whether a subscription to an event type may receive some events of the
// type and not other ones, so that a Matcher must examine each event.
func NeedsEvent(s *eventhook.Subscription, eventType string) bool {
	return filter.IsSet(s.Filter) || len(s.ScopeFilter) > 0 || s.OrderedBy != "" || excludesLifecycle(s, eventType)
}

// excludesLifecycle reports whether a subscription does not receive the lifecycle events of a
// type. It may receive a tenant's own events of the same type.
func excludesLifecycle(s *eventhook.Subscription, eventType string) bool {
	_, isLifecycle := eventhook.FindLifecycleEventType(eventType)
	return isLifecycle && !namesType(s.EventTypes, eventType)
}
