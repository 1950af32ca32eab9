package eventhook_test

import (
	"testing"
	"time"

	"github.com/eventhook/eventhook"
)

func TestQuantilesOfLatenciesAreWithinAFactorOfTwo(t *testing.T) {
	for _, all := range [][]time.Duration{
		{0}, {time.Millisecond}, {3 * time.Millisecond, 4 * time.Millisecond, 31 * time.Millisecond}, {time.Minute}, {4 * time.Hour},
	} {
		var c eventhook.LatencyCounts
		for _, d := range all {
			c.Observe(d)
		}
		for _, q := range []float64{0.5, 0.99} {
			want := all[min(int(q*float64(len(all))), len(all)-1)]
			got, ok := c.Quantile(q)
			if !ok || got > 2*max(want, time.Millisecond) || 2*got < want {
				t.Errorf("the %v quantile of %v: got %s, want %s within a factor of 2", q, all, got, want)
			}
		}
	}
}

func TestLatenciesBeyondTheBuckets(t *testing.T) {
	var c eventhook.LatencyCounts
	if _, ok := c.Quantile(0.5); ok {
		t.Error("a histogram without latencies has a median, want none")
	}
	c.Observe(-time.Second)
	c.Observe(1000 * time.Hour)
	if c[0] != 1 || c[eventhook.LatencyBuckets-1] != 1 {
		t.Errorf("got %v, want a latency in the first and in the last bucket", c)
	}
}

func TestTheWindowEndsWithTheCurrentSpan(t *testing.T) {
	now := time.Date(2026, 3, 10, 12, 0, 30, 0, time.UTC)
	got := eventhook.TrafficWindowAt(now, eventhook.TrafficMinute, 60)
	if want := time.Date(2026, 3, 10, 11, 1, 0, 0, time.UTC); !got.Since.Equal(want) || got.Until.Sub(got.Since) != time.Hour {
		t.Errorf("got %v, want an hour from %v", got, want)
	}
}
