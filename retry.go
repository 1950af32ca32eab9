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
}

// The retries of events and executions: 10 s × 3^(n−1), at most 1 h, 3 times.
var (
	EventRetry     = RetryPolicy{MaxRetries: new(3), InitialDelayMS: 10_000, BackoffMultiplier: 3, MaxDelayMS: 3_600_000}
	ExecutionRetry = EventRetry
)

// Or fills in from fallback what is zero.
func (p RetryPolicy) Or(fallback RetryPolicy) RetryPolicy {
	if p.MaxRetries == nil {
		p.MaxRetries = fallback.MaxRetries
	}
	p.InitialDelayMS = orDefault(p.InitialDelayMS, fallback.InitialDelayMS)
	p.BackoffMultiplier = orDefault(p.BackoffMultiplier, fallback.BackoffMultiplier)
	p.MaxDelayMS = orDefault(p.MaxDelayMS, fallback.MaxDelayMS)
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

// Validate reports every fault by its field; zero values pass.
func (p RetryPolicy) Validate() Faults {
	var f Faults
	const day = 24 * 60 * 60
	if p.MaxRetries != nil {
		checkRange(&f, "max_retries", *p.MaxRetries, 0, 25)
	}
	checkRange(&f, "initial_delay_ms", p.InitialDelayMS, 0, day*1000)
	checkRange(&f, "max_delay_ms", p.MaxDelayMS, 0, 7*day*1000)
	if p.MaxDelayMS > 0 && p.MaxDelayMS < p.InitialDelayMS {
		f.Add("max_delay_ms", "%d is less than initial_delay_ms, %d", p.MaxDelayMS, p.InitialDelayMS)
	}
	if m := p.BackoffMultiplier; m != 0 && (m < 1 || m > 10 || math.IsNaN(m)) {
		f.Add("backoff_multiplier", "%g is not between 1 and 10", m)
	}
	checkRange(&f, "schedule_seconds", len(p.ScheduleSeconds), 0, 25)
	for i, s := range p.ScheduleSeconds {
		checkRange(&f, fmt.Sprintf("schedule_seconds[%d]", i), s, 0, 7*day)
	}
	return f
}
