package measure

import (
	"strings"
	"testing"
	"time"
)

func TestRatioHoldsWithinItsLimit(t *testing.T) {
	for _, c := range []struct {
		ratio Ratio
		want  bool
	}{
		{Ratio{Value: 0.4, Limit: 0.4}, true},
		{Ratio{Value: 0.3, Limit: 0.4}, false},
		{Ratio{Value: 1.2, Limit: 1.2, AtMost: true}, true},
		{Ratio{Value: 1.3, Limit: 1.2, AtMost: true}, false},
	} {
		if got := c.ratio.Holds(); got != c.want {
			t.Errorf("%+v holds: got %v, want %v", c.ratio, got, c.want)
		}
		if text := c.ratio.String(); strings.Contains(text, "MISSED") == c.want {
			t.Errorf("got %q, want MISSED in it: %v", text, !c.want)
		}
	}
}

func TestMedianAndPercentile(t *testing.T) {
	same := func(x float64) float64 { return x }
	if got := Median([]float64{3, 1, 2}, same); got != 2 {
		t.Errorf("median of three: got %v, want 2", got)
	}
	if got := Median([]float64{4, 1, 3, 2}, same); got != 3 {
		t.Errorf("median of four: got %v, want the greater middle value, 3", got)
	}
	times := []time.Duration{4, 2, 1, 3}
	for percent, want := range map[int]time.Duration{0: 1, 50: 2, 75: 3, 76: 4, 99: 4, 100: 4} {
		if got := Percentile(times, percent); got != want {
			t.Errorf("p%d of %v: got %v, want %v", percent, times, got, want)
		}
	}
}
