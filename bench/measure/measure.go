// Package measure computes the results that the bench program and the Go benchmarks
// of the tree compare with their limits.
package measure

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Ratio is a result with its limit. Most results are quotients of two measurements
// of the same run; some are counts or milliseconds.
type Ratio struct {
	Name   string
	Value  float64
	Limit  float64
	AtMost bool // the limit is a maximum, otherwise a minimum
}

// AtLeast returns a ratio with a minimum.
func AtLeast(name string, value, limit float64) Ratio {
	return Ratio{Name: name, Value: value, Limit: limit}
}

// AtMost returns a ratio with a maximum.
func AtMost(name string, value, limit float64) Ratio {
	return Ratio{Name: name, Value: value, Limit: limit, AtMost: true}
}

// Holds reports whether the value is within the limit.
func (r Ratio) Holds() bool {
	if r.AtMost {
		return r.Value <= r.Limit
	}
	return r.Value >= r.Limit
}

func (r Ratio) String() string {
	bound, missed := "at least", ""
	if r.AtMost {
		bound = "at most"
	}
	if !r.Holds() {
		missed = "  MISSED"
	}
	return fmt.Sprintf("ratio  %-52s %.2f  (wanted: %s %.2f)%s", r.Name, r.Value, bound, r.Limit, missed)
}

// Report adds the value to the benchmark's line of results with a unit, such as
// slower_than_small, and logs it with its limit.
func (r Ratio) Report(b *testing.B, unit string) {
	b.Helper()
	b.ReportMetric(r.Value, unit)
	b.Log(r)
}

// Size returns the number in an environment variable, or def if it is not set. Go
// benchmarks and tests read the sizes of their databases with it. Digits may be grouped with
// underscores. The benchmark fails if the text is not a positive number.
func Size(b testing.TB, variable string, def int) int {
	b.Helper()
	text := os.Getenv(variable)
	if text == "" {
		return def
	}
	n, err := strconv.Atoi(strings.ReplaceAll(text, "_", ""))
	if err != nil || n <= 0 {
		b.Fatalf("%s=%q: want a positive number", variable, text)
	}
	return n
}

// Median returns the median of the values that get returns. For an even number of
// items it is the greater of the two middle values. The list must not be empty.
func Median[T any](list []T, get func(T) float64) float64 {
	values := make([]float64, len(list))
	for i, x := range list {
		values[i] = get(x)
	}
	slices.Sort(values)
	return values[len(values)/2]
}

// Percentile returns the shortest of some times that is at least as long as the
// given percentage of them. The list must not be empty.
func Percentile(times []time.Duration, percent int) time.Duration {
	sorted := slices.Sorted(slices.Values(times))
	const whole = 100
	rank := (len(sorted)*percent + whole - 1) / whole // rounded up
	return sorted[max(rank, 1)-1]
}
