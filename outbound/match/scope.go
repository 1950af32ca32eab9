package match

import (
	"slices"

	"github.com/eventhook/eventhook"
)

// Scope reports whether the scope_filter of a subscription allows an event.
func Scope(s *eventhook.Subscription, e *eventhook.Event) bool {
	if len(s.ScopeFilter) == 0 {
		return true
	}
	for pattern := range patternsOf(e) {
		if slices.Contains(s.ScopeFilter, pattern) {
			return true
		}
	}
	return false
}
