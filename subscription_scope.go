package eventhook

import "strings"

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
		if pattern != scope && !strings.HasPrefix(pattern, scope+"/") {
			return false
		}
	}
	return true
}
