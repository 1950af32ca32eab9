package eventhook_test

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eventhook/eventhook"
)

func delays(p eventhook.RetryPolicy) []time.Duration {
	var all []time.Duration
	for n := 1; ; n++ {
		d, more := p.Delay(n)
		if !more {
			return all
		}
		all = append(all, d)
	}
}

func TestDelay(t *testing.T) {
	const s, m, h = time.Second, time.Minute, time.Hour
	events := eventhook.EventRetry
	more := eventhook.RetryPolicy{MaxRetries: new(8)}.WithDefaults(events)
	for _, c := range []struct {
		claim  string
		policy eventhook.RetryPolicy
		want   []time.Duration
	}{
		{"the delay of events triples", events, []time.Duration{10 * s, 30 * s, 90 * s}},
		{"the delay of events is at most an hour", more, []time.Duration{10 * s, 30 * s, 90 * s, 270 * s, 810 * s, 2430 * s, h, h}},
		{"never", eventhook.RetryPolicy{MaxRetries: new(0)}.WithDefaults(events), nil},
		{"the zero policy has no retries", eventhook.RetryPolicy{}, nil},
		{"a schedule", eventhook.RetryPolicy{ScheduleSeconds: []int{30, 120, 0, 7200}}.WithDefaults(events), []time.Duration{30 * s, 2 * m, 0, 2 * h}},
		{"a schedule overrides max_retries", eventhook.RetryPolicy{MaxRetries: new(0), ScheduleSeconds: []int{1}}, []time.Duration{s}},
		{
			"a constant delay", eventhook.RetryPolicy{MaxRetries: new(3), InitialDelayMS: 1500, BackoffMultiplier: 1, MaxDelayMS: 60_000},
			[]time.Duration{1500 * time.Millisecond, 1500 * time.Millisecond, 1500 * time.Millisecond},
		},
		{
			"the first delay is limited, too", eventhook.RetryPolicy{MaxRetries: new(1), InitialDelayMS: 5000, BackoffMultiplier: 2, MaxDelayMS: 1000},
			[]time.Duration{s},
		},
	} {
		t.Run(c.claim, func(t *testing.T) {
			if diff := cmp.Diff(c.want, delays(c.policy)); diff != "" {
				t.Errorf("delays (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDelayWithoutARetry(t *testing.T) {
	for _, n := range []int{math.MinInt, -1, 0, 4, math.MaxInt} {
		if d, more := eventhook.EventRetry.Delay(n); d != 0 || more {
			t.Errorf("Delay(%d): got %s, %t; want 0, false", n, d, more)
		}
	}
}

func TestDelayNeverOverflows(t *testing.T) {
	odd := []float64{0, -1, -3e300, 1, math.MaxFloat64, math.Inf(1), math.Inf(-1), math.NaN()}
	sizes := []int{math.MinInt, -1, 0, 1, 3_600_000, math.MaxInt}
	const year = 365 * 24 * time.Hour
	for _, multiplier := range odd {
		for _, initial := range sizes {
			for _, most := range sizes {
				p := eventhook.RetryPolicy{MaxRetries: new(math.MaxInt), InitialDelayMS: initial, BackoffMultiplier: multiplier, MaxDelayMS: most}
				for _, n := range []int{1, 2, 3, 1000, math.MaxInt} {
					d, more := p.Delay(n)
					if d < 0 || d > year || !more {
						t.Errorf("Delay(%d) of %d ms × %g, cap %d ms: got %s, %t; want 0 to a year, true", n, initial, multiplier, most, d, more)
					}
					if most > 0 && most < math.MaxInt && d > time.Duration(most)*time.Millisecond {
						t.Errorf("Delay(%d) of %d ms × %g: got %s, want at most %d ms", n, initial, multiplier, d, most)
					}
				}
			}
		}
	}
	endless := eventhook.RetryPolicy{MaxRetries: new(9), InitialDelayMS: math.MaxInt, BackoffMultiplier: 10, MaxDelayMS: math.MaxInt}
	for _, p := range []eventhook.RetryPolicy{endless, {ScheduleSeconds: []int{math.MaxInt}}} {
		if d, _ := p.Delay(1); d != year {
			t.Errorf("%+v: got %s, want a year", p, d)
		}
	}
	for _, seconds := range sizes {
		if d, _ := (eventhook.RetryPolicy{ScheduleSeconds: []int{seconds}}).Delay(1); d < 0 || d > year {
			t.Errorf("schedule of %d s: got %s, want 0 to a year", seconds, d)
		}
	}
}

func TestWithDefaultsKeepsSetFields(t *testing.T) {
	set := eventhook.RetryPolicy{MaxRetries: new(0), InitialDelayMS: 1, BackoffMultiplier: 2, MaxDelayMS: 3, ScheduleSeconds: []int{4}, Jitter: eventhook.JitterFull}
	for _, c := range []struct {
		claim                 string
		policy, other, wanted eventhook.RetryPolicy
	}{
		{"every field is set", set, eventhook.EventRetry, set},
		{"zero fields get the defaults", eventhook.RetryPolicy{InitialDelayMS: 7}, eventhook.EventRetry,
			eventhook.RetryPolicy{MaxRetries: new(3), InitialDelayMS: 7, BackoffMultiplier: 3, MaxDelayMS: 3_600_000}},
	} {
		t.Run(c.claim, func(t *testing.T) {
			if diff := cmp.Diff(c.wanted, c.policy.WithDefaults(c.other)); diff != "" {
				t.Errorf("policy (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAddJitter(t *testing.T) {
	for _, c := range []struct {
		claim  string
		jitter string
		chance float64
		want   time.Duration
	}{
		{"default jitter is never negative", "", 0, 10 * time.Second},
		{"default jitter adds up to a tenth", "", 0.5, 10500 * time.Millisecond},
		{"some is the default", eventhook.JitterSome, 0.999, 10999 * time.Millisecond},
		{"full jitter can be zero", eventhook.JitterFull, 0, 0},
		{"full jitter replaces the delay", eventhook.JitterFull, 0.5, 5 * time.Second},
	} {
		if got := (eventhook.RetryPolicy{Jitter: c.jitter}).AddJitter(10*time.Second, c.chance); got != c.want {
			t.Errorf("%s: got %s, want %s", c.claim, got, c.want)
		}
	}
}

func TestRetryPolicyValidate(t *testing.T) {
	checkFaults(t, "an unknown jitter", eventhook.RetryPolicy{Jitter: "much"}.Validate(), "jitter")
	checkFaults(t, "full jitter", eventhook.RetryPolicy{Jitter: eventhook.JitterFull}.Validate())
	checkFaults(t, "a source with jitter", eventhook.SourceSettings{Retry: eventhook.RetryPolicy{Jitter: eventhook.JitterFull}}.Validate(), "retry.jitter")
	checkFaults(t, "the default", eventhook.EventRetry.Validate())
	checkFaults(t, "the zero policy", eventhook.RetryPolicy{}.Validate())
	checkFaults(t, "several faults", eventhook.RetryPolicy{
		MaxRetries: new(-1), InitialDelayMS: -1, BackoffMultiplier: 0.5, MaxDelayMS: math.MaxInt, ScheduleSeconds: []int{1, -1, math.MaxInt},
	}.Validate(), "max_retries", "initial_delay_ms", "backoff_multiplier", "max_delay_ms", "schedule_seconds[1]", "schedule_seconds[2]")
	checkFaults(t, "too many steps", eventhook.RetryPolicy{ScheduleSeconds: slices.Repeat([]int{1}, 26)}.Validate(), "schedule_seconds")
	checkFaults(t, "a cap below the first delay", eventhook.RetryPolicy{InitialDelayMS: 2, MaxDelayMS: 1}.Validate(), "max_delay_ms")
	checkFaults(t, "a cap at the first delay", eventhook.RetryPolicy{InitialDelayMS: 2, MaxDelayMS: 2}.Validate())
	checkFaults(t, "a cap without an initial delay", eventhook.RetryPolicy{MaxDelayMS: 1}.Validate())
	for _, m := range []float64{math.NaN(), math.Inf(1), -2, 10.5} {
		checkFaults(t, "multiplier", eventhook.RetryPolicy{BackoffMultiplier: m}.Validate(), "backoff_multiplier")
	}
}

// checkFaults compares the locations of faults in any order.
func checkFaults(t *testing.T, claim string, got eventhook.Faults, want ...string) {
	t.Helper()
	var at []string
	for _, f := range got {
		at = append(at, f.Location)
		if f.Message == "" {
			t.Errorf("%s: the fault at %s has no message", claim, f.Location)
		}
	}
	slices.Sort(at)
	slices.Sort(want)
	if diff := cmp.Diff(want, at); diff != "" {
		t.Errorf("%s: faults (-want +got):\n%s\n%v", claim, diff, got)
	}
}
