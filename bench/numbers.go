package main

import (
	"fmt"
	"slices"
	"time"
)

// ratio is what a part has found, and what is wanted.
type ratio struct {
	name   string
	value  float64
	wanted float64
	atMost bool // else at least
}

func (r ratio) holds() bool {
	if r.atMost {
		return r.value <= r.wanted
	}
	return r.value >= r.wanted
}

func (r ratio) String() string {
	bound, missed := "at least", ""
	if r.atMost {
		bound = "at most"
	}
	if !r.holds() {
		missed = "  MISSED"
	}
	return fmt.Sprintf("ratio  %-52s %.2f  (wanted: %s %.2f)%s", r.name, r.value, bound, r.wanted, missed)
}

// median is the middle of an odd number of values, else the upper of the two
// that are. It needs one.
func median(values []float64) float64 {
	return slices.Sorted(slices.Values(values))[len(values)/2]
}

// medianOf is the median of what get tells of each.
func medianOf[T any](list []T, get func(T) float64) float64 {
	values := make([]float64, len(list))
	for i, x := range list {
		values[i] = get(x)
	}
	return median(values)
}

// percentile is the least of some times that percent of them do not exceed. It
// needs one.
func percentile(times []time.Duration, percent int) time.Duration {
	sorted := slices.Sorted(slices.Values(times))
	const whole = 100
	return sorted[max((len(sorted)*percent+whole-1)/whole, 1)-1]
}
