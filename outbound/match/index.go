package match

import (
	"bytes"
	"encoding/json"
	"slices"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/filter"
)

// subscriptionIndex finds the subscriptions that may receive an event by its type and its
// scope, without examining other subscriptions.
type subscriptionIndex struct {
	unscoped filter.Types             // of the subscriptions without a scope_filter
	scoped   map[string]*filter.Types // by a pattern of scope_filter; nil without scope filters
}

// add adds a subscription as number n. Numbers must ascend.
func (x *subscriptionIndex) add(n int, s *eventhook.Subscription) {
	if len(s.ScopeFilter) == 0 {
		x.unscoped.Add(n, s.EventTypes)
		return
	}
	if x.scoped == nil {
		x.scoped = map[string]*filter.Types{}
	}
	for _, pattern := range distinct(s.ScopeFilter) {
		types := x.scoped[pattern]
		if types == nil {
			types = &filter.Types{}
			x.scoped[pattern] = types
		}
		types.Add(n, s.EventTypes)
	}
}

func distinct(patterns []string) []string {
	return slices.Compact(slices.Sorted(slices.Values(patterns)))
}

// each calls f with the number of each subscription to the event's type and scope, in
// ascending order and once each.
func (x *subscriptionIndex) each(e *eventhook.Event, f func(n int)) {
	if x.scoped == nil {
		x.unscoped.Each(e.EventType, f)
		return
	}
	var found []int
	collect := func(n int) { found = append(found, n) }
	for pattern := range patternsOf(e) {
		if types := x.scoped[pattern]; types != nil {
			types.Each(e.EventType, collect)
		}
	}
	if len(found) == 0 {
		x.unscoped.Each(e.EventType, f)
		return
	}
	x.unscoped.Each(e.EventType, collect)
	slices.Sort(found)
	for _, n := range slices.Compact(found) {
		f(n)
	}
}

// patternsOf iterates over the patterns that match the scope of an event: "*", the scope
// itself, and each of its prefixes that ends at a slash. A scope that is not a string
// matches "*" only, and an event without a scope matches no pattern.
func patternsOf(e *eventhook.Event) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		if e.Envelope == nil {
			return
		}
		raw := bytes.TrimSpace(e.Envelope.Scope)
		if len(raw) == 0 || string(raw) == "null" || !yield("*") {
			return
		}
		var scope string
		if raw[0] != '"' || json.Unmarshal(raw, &scope) != nil || !yield(scope) {
			return
		}
		for i := range min(len(scope), eventhook.MaxScopePattern) {
			if scope[i] == '/' && !yield(scope[:i]+"/*") {
				return
			}
		}
	}
}
