package telemetry

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// SeriesNames returns the series of the family that exist from the start, as in the text
// format, without the prefix.
func (f Family) SeriesNames() (names []string) {
	name := f.Name
	if f.Type == Histogram || f.Type == Latency {
		name += "_count"
	}
	for _, values := range f.series() {
		var labels []string
		for i, v := range values {
			labels = append(labels, fmt.Sprintf("%s=%q", f.Labels[i].Name, v))
		}
		slices.Sort(labels)
		if len(labels) == 0 {
			names = append(names, name)
			continue
		}
		names = append(names, name+"{"+strings.Join(labels, ",")+"}")
	}
	return names
}

// NewMetricsAt returns metrics with a clock of their own.
func NewMetricsAt(now func() time.Time) *Metrics {
	m := NewMetrics()
	m.now = now
	return m
}
