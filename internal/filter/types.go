package filter

import (
	"math"
	"slices"
	"strings"
)

// Types is an index of event type patterns. It finds the filters that accept a type without
// examining the others. A pattern is an exact type, "prefix.*" or "*". A filter without patterns
// accepts all types. The zero Types has no filters.
type Types struct {
	all      []int // filters that accept all types
	exact    map[string][]int
	prefixes map[string][]int // keys end with a dot
}

// NewTypeIndex returns the index of filters. filters[n] holds the patterns of filter n.
func NewTypeIndex(filters [][]string) Types {
	var x Types
	for n, patterns := range filters {
		x.Add(n, patterns)
	}
	return x
}

// Add adds filter n with its patterns. Filters must be added in ascending order.
func (x *Types) Add(n int, patterns []string) {
	if len(patterns) == 0 || slices.Contains(patterns, "*") {
		x.all = append(x.all, n)
		return
	}
	for _, p := range patterns {
		if prefix, ok := strings.CutSuffix(p, "*"); ok && strings.HasSuffix(prefix, ".") {
			addTo(&x.prefixes, prefix, n)
		} else {
			addTo(&x.exact, p, n)
		}
	}
}

func addTo(lists *map[string][]int, key string, n int) {
	if *lists == nil {
		*lists = map[string][]int{}
	}
	(*lists)[key] = append((*lists)[key], n)
}

// Each calls f with the index of each filter that accepts a type, in ascending order and once each.
func (x *Types) Each(eventType string, f func(n int)) {
	var backing [8][]int // avoids an allocation
	lists := append(backing[:0], x.all, x.exact[eventType])
	for i := range len(eventType) {
		if eventType[i] == '.' && len(x.prefixes) > 0 {
			if list := x.prefixes[eventType[:i+1]]; list != nil {
				lists = append(lists, list)
			}
		}
	}
	for {
		next := math.MaxInt
		for _, list := range lists {
			if len(list) > 0 {
				next = min(next, list[0])
			}
		}
		if next == math.MaxInt {
			return
		}
		for i, list := range lists {
			for len(list) > 0 && list[0] == next {
				list = list[1:]
			}
			lists[i] = list
		}
		f(next)
	}
}

// MatchType reports whether a pattern accepts a type.
func MatchType(pattern, eventType string) bool {
	if prefix, ok := strings.CutSuffix(pattern, ".*"); ok {
		rest, ok := strings.CutPrefix(eventType, prefix)
		return ok && strings.HasPrefix(rest, ".")
	}
	return pattern == "*" || pattern == eventType
}
