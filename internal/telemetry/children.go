package telemetry

import (
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// children are the series of a metric with one label. The series of known values are found
// without a lock. Safe for concurrent use.
type children[T any] struct {
	known map[string]T
	vec   interface{ WithLabelValues(values ...string) T }
	limit labelLimit
}

type counters = children[prometheus.Counter]

func newChildren[T any](vec interface{ WithLabelValues(values ...string) T }, values []string) *children[T] {
	c := &children[T]{known: map[string]T{}, vec: vec}
	for _, v := range values {
		c.known[v] = vec.WithLabelValues(v)
	}
	return c
}

// of returns the series of a value. Beyond the known values and 50 more, it returns the
// series of "other".
func (c *children[T]) of(value string) T {
	if x, ok := c.known[value]; ok {
		return x
	}
	return c.vec.WithLabelValues(c.limit.label(value))
}

// labelLimit bounds the number of values of a label that users can choose: label returns
// the first 50 values unchanged, and "other" for all further values. Safe for concurrent
// use.
type labelLimit struct {
	mu   sync.Mutex
	seen map[string]bool
	max  int // 0 means 50
}

func (l *labelLimit) label(value string) string {
	const defaultMax = 50
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.seen[value] {
		if len(l.seen) >= max(l.max, defaultMax) {
			return other
		}
		if l.seen == nil {
			l.seen = map[string]bool{}
		}
		l.seen[value] = true
	}
	return value
}

const other = "other"

// joined returns the values of several labels as one key.
func joined(values ...string) string { return strings.Join(values, ",") }
