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

// IsByTypeOnly reports whether a subscription receives all events of its types, so that no
// event must be read to match it.
func IsByTypeOnly(s *eventhook.Subscription) bool {
	return !filter.IsSet(s.Filter) && len(s.ScopeFilter) == 0 && s.OrderedBy == ""
}
