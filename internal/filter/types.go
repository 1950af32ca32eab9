package filter

import (
	"math"
	"slices"
	"strings"
)

// Types finds those who take events of a type, by their numbers, so that the
// others cost nothing. Patterns are exact, "prefix.*" or "*"; none take all.
type Types struct {
	all      []int
	exact    map[string][]int
	prefixes map[string][]int // with the dot
}

// NewTypeIndex makes an index of the patterns of each taker.
func NewTypeIndex(filters [][]string) Types {
	x := Types{exact: map[string][]int{}, prefixes: map[string][]int{}}
	for taker, patterns := range filters {
		if len(patterns) == 0 || slices.Contains(patterns, "*") {
			x.all = append(x.all, taker)
			continue
		}
		for _, p := range patterns {
			if prefix, ok := strings.CutSuffix(p, "*"); ok && strings.HasSuffix(prefix, ".") {
				x.prefixes[prefix] = append(x.prefixes[prefix], taker)
			} else {
				x.exact[p] = append(x.exact[p], taker)
			}
		}
	}
	return x
}

// Each calls f for each who takes events of a type, in order and once.
func (x *Types) Each(eventType string, f func(taker int)) {
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

// MatchType reports whether one pattern takes events of a type.
func MatchType(pattern, eventType string) bool {
	if prefix, ok := strings.CutSuffix(pattern, ".*"); ok {
		rest, ok := strings.CutPrefix(eventType, prefix)
		return ok && strings.HasPrefix(rest, ".")
	}
	return pattern == "*" || pattern == eventType
}
