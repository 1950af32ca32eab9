package route

import (
	"math"
	"slices"
	"strings"
)

// typeIndex finds the routes that take events of a type, so that those that
// do not cost nothing. Patterns are exact, "prefix.*" or "*"; none take all.
type typeIndex struct {
	all      []int
	exact    map[string][]int
	prefixes map[string][]int // with the dot
}

func newTypeIndex(filters [][]string) typeIndex {
	x := typeIndex{exact: map[string][]int{}, prefixes: map[string][]int{}}
	for route, patterns := range filters {
		if len(patterns) == 0 || slices.Contains(patterns, "*") {
			x.all = append(x.all, route)
			continue
		}
		for _, p := range patterns {
			if prefix, ok := strings.CutSuffix(p, "*"); ok && strings.HasSuffix(prefix, ".") {
				x.prefixes[prefix] = append(x.prefixes[prefix], route)
			} else {
				x.exact[p] = append(x.exact[p], route)
			}
		}
	}
	return x
}

// matches calls f for each route that takes events of a type, in order and
// once.
func (x *typeIndex) matches(eventType string, f func(route int)) {
	var room [8][]int
	lists := append(room[:0], x.all, x.exact[eventType])
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

// matchType reports whether one pattern takes events of a type.
func matchType(pattern, eventType string) bool {
	if prefix, ok := strings.CutSuffix(pattern, ".*"); ok {
		rest, ok := strings.CutPrefix(eventType, prefix)
		return ok && strings.HasPrefix(rest, ".")
	}
	return pattern == "*" || pattern == eventType
}
