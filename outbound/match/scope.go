package match

import (
	"slices"

	"github.com/eventhook/eventhook"
)

// Scope reports whether a scope_filter allows an event.
func Scope(scopes []string, e *eventhook.Event) bool {
	if len(scopes) == 0 {
		return true
	}
	for pattern := range patternsOf(e) {
		if slices.Contains(scopes, pattern) {
			return true
		}
	}
	return false
}
