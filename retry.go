package eventhook

import (
	"fmt"
	"math"
	"time"
)

// RetryPolicy says when failed work is tried again. Zero values mean the
// default of whatever uses it; MaxRetries is a pointer because 0 means never.
type RetryPolicy struct {
	MaxRetries        *int    `json:"max_retries,omitempty" yaml:"max_retries"`
	InitialDelayMS    int     `json:"initial_delay_ms,omitempty" yaml:"initial_delay_ms"`
	BackoffMultiplier float64 `json:"backoff_multiplier,omitempty" yaml:"backoff_multiplier"`
	MaxDelayMS        int     `json:"max_delay_ms,omitempty" yaml:"max_delay_ms"`
	ScheduleSeconds   []int   `json:"schedule_seconds,omitempty" yaml:"schedule_seconds"`
	Jitter            string  `json:"jitter,omitempty" yaml:"jitter"` // of deliveries: JitterSome by default
}

// How the moments of retries are spread, so that what failed together does not
// come back together.
const (
	JitterSome = "some" // up to a tenth later
	JitterFull = "full" // any moment until then
)

// The retries of events and executions: 10 s × 3^(n−1), at most 1 h, 3 times.
var (
	EventRetry     = RetryPolicy{MaxRetries: new(3), InitialDelayMS: 10_000, BackoffMultiplier: 3, MaxDelayMS: 3_600_000}
	ExecutionRetry = EventRetry
)

// WithDefaults fills in from fallback what is zero.
func (p RetryPolicy) WithDefaults(fallback RetryPolicy) RetryPolicy {
	if p.MaxRetries == nil {
		p.MaxRetries = fallback.MaxRetries
	}
	p.InitialDelayMS = orDefault(p.InitialDelayMS, fallback.InitialDelayMS)
	p.BackoffMultiplier = orDefault(p.BackoffMultiplier, fallback.BackoffMultiplier)
	p.MaxDelayMS = orDefault(p.MaxDelayMS, fallback.MaxDelayMS)
	p.Jitter = orDefault(p.Jitter, fallback.Jitter)
	return p
}

// Retries is how often failed work is tried again. An explicit schedule
// counts itself.
func (p RetryPolicy) Retries() int {
	switch {
	case len(p.ScheduleSeconds) > 0:
		return len(p.ScheduleSeconds)
	case p.MaxRetries == nil:
		return 0
	}
	return *p.MaxRetries
}

// Delay is the time before retry n, counted from 1, and false when the
// retries are used up. It is never negative and never overflows, whatever the
// numbers are.
func (p RetryPolicy) Delay(n int) (time.Duration, bool) {
	if n < 1 || n > p.Retries() {
		return 0, false
	}
	if len(p.ScheduleSeconds) > 0 {
		return span(float64(p.ScheduleSeconds[n-1]), time.Second), true
	}
	ms := float64(p.InitialDelayMS) * math.Pow(p.BackoffMultiplier, float64(n-1))
	return span(min(ms, float64(p.MaxDelayMS)), time.Millisecond), true
}

// AddJitter is a delay with its jitter, where chance is between 0 and 1.
func (p RetryPolicy) AddJitter(delay time.Duration, chance float64) time.Duration {
	if p.Jitter == JitterFull {
		return time.Duration(chance * float64(delay))
	}
	const tenth = 10
	return delay + time.Duration(chance*float64(delay/tenth))
}

// longest bounds a delay far beyond what Validate lets pass.
const longest = 365 * 24 * time.Hour

// span is n units as a duration between 0 and longest; not a number is 0.
func span(n float64, unit time.Duration) time.Duration {
	if !(n > 0) {
		return 0
	}
	if n >= float64(longest/unit) {
		return longest
	}
	return time.Duration(n) * unit
}

// retryBounds are what a policy may say, in the units of its fields; zero values
// always pass.
type retryBounds struct {
	retries                   int
	initialLeast, initialMost int
	delayLeast, delayMost     int
	scheduleMost              int
}

const (
	hourMS     = 3_600_000
	dayMS      = 24 * hourMS
	daySeconds = 24 * 60 * 60
)

var (
	workRetryBounds     = retryBounds{retries: 25, initialMost: dayMS, delayMost: 7 * dayMS, scheduleMost: 7 * daySeconds}
	deliveryRetryBounds = retryBounds{retries: 10, initialLeast: 100, initialMost: 60_000, delayLeast: 1000, delayMost: hourMS, scheduleMost: daySeconds}
)

// Validate reports every fault by its field; zero values pass.
func (p RetryPolicy) Validate() Faults { return p.validate(workRetryBounds) }

func (p RetryPolicy) validate(b retryBounds) Faults {
	var f Faults
	if p.MaxRetries != nil {
		checkRange(&f, "max_retries", *p.MaxRetries, 0, b.retries)
	}
	if p.InitialDelayMS != 0 {
		checkRange(&f, "initial_delay_ms", p.InitialDelayMS, b.initialLeast, b.initialMost)
	}
	if p.MaxDelayMS != 0 {
		checkRange(&f, "max_delay_ms", p.MaxDelayMS, b.delayLeast, b.delayMost)
	}
	if p.MaxDelayMS > 0 && p.MaxDelayMS < p.InitialDelayMS {
		f.Add("max_delay_ms", "%d is less than initial_delay_ms, %d", p.MaxDelayMS, p.InitialDelayMS)
	}
	if m := p.BackoffMultiplier; m != 0 && (m < 1 || m > 10 || math.IsNaN(m)) {
		f.Add("backoff_multiplier", "%g is not between 1 and 10", m)
	}
	checkRange(&f, "schedule_seconds", len(p.ScheduleSeconds), 0, b.retries)
	for i, s := range p.ScheduleSeconds {
		checkRange(&f, fmt.Sprintf("schedule_seconds[%d]", i), s, 0, b.scheduleMost)
	}
	if p.Jitter != "" && p.Jitter != JitterSome && p.Jitter != JitterFull {
		f.Add("jitter", "%q is neither some nor full", p.Jitter)
	}
	return f
}
