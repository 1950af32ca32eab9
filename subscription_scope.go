package eventhook

import (
	"slices"
	"strings"
)

// CheckScope returns why a text cannot be the scope of a customer, or "".
func CheckScope(scope string) string {
	if strings.Contains(scope, "*") {
		return "must not contain *"
	}
	if strings.HasSuffix(scope, "/") {
		return "must not end with a slash"
	}
	return CheckScopePattern(scope)
}

// IsVisibleTo reports whether a customer of a scope may see the subscription: its scope_filter
// is not empty, and each of its patterns is the scope or begins with the scope and a slash. So
// the subscription receives no events of another customer.
func (s SubscriptionSettings) IsVisibleTo(scope string) bool {
	if CheckScope(scope) != "" || len(s.ScopeFilter) == 0 {
		return false
	}
	for _, pattern := range s.ScopeFilter {
		if !InScope(pattern, scope) {
			return false
		}
	}
	return true
}

// InScope reports whether a scope, or a pattern of scopes, is of a customer: it is the customer's
// scope or begins with that and a slash.
func InScope(scope, customer string) bool {
	return scope == customer || strings.HasPrefix(scope, customer+"/")
}

// NarrowsScope reports whether a change of the scope_filter excludes events that matched before.
func NarrowsScope(from, to []string) bool {
	if len(from) == 0 {
		return len(to) > 0
	}
	return len(to) > 0 && slices.ContainsFunc(from, func(pattern string) bool { return !slices.Contains(to, pattern) })
}

// TestScope returns the scope of a test event for the subscription, which matches its
// scope_filter or lies above a pattern of it; "" if the filter allows every event. A
// customer that sees the subscription sees its tests.
func (s SubscriptionSettings) TestScope() string {
	if len(s.ScopeFilter) == 0 {
		return ""
	}
	return strings.TrimSuffix(strings.TrimSuffix(s.ScopeFilter[0], "*"), "/")
}
