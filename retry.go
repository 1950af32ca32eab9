package eventhook

import (
	"fmt"
	"math"
	"time"
)

// RetryPolicy says when failed work is retried. A zero field means the default of
// the user of the policy. MaxRetries is a pointer because 0 means that work is never
// retried.
type RetryPolicy struct {
	MaxRetries        *int    `json:"max_retries,omitempty" yaml:"max_retries"`
	InitialDelayMS    int     `json:"initial_delay_ms,omitempty" yaml:"initial_delay_ms"`
	BackoffMultiplier float64 `json:"backoff_multiplier,omitempty" yaml:"backoff_multiplier"`
	MaxDelayMS        int     `json:"max_delay_ms,omitempty" yaml:"max_delay_ms"`
	ScheduleSeconds   []int   `json:"schedule_seconds,omitempty" yaml:"schedule_seconds"`
	Jitter            string  `json:"jitter,omitempty" yaml:"jitter"`                       // deliveries only; JitterSome by default
	TerminalStatuses  []int   `json:"terminal_statuses,omitempty" yaml:"terminal_statuses"` // deliveries only; responses after which there is no retry
}

// Values of RetryPolicy.Jitter. Jitter spreads the retries of work that failed at
// the same moment.
const (
	JitterSome = "some" // up to a tenth longer than the delay
	JitterFull = "full" // any time between zero and the delay
)

// EventRetry and ExecutionRetry are the default policies of events and executions: 3
// retries after 10 s × 3^(n−1), at most 1 h.
var (
	EventRetry     = RetryPolicy{MaxRetries: new(3), InitialDelayMS: 10_000, BackoffMultiplier: 3, MaxDelayMS: 3_600_000}
	ExecutionRetry = EventRetry
)

// WithDefaults returns p with zero fields set from defaults.
func (p RetryPolicy) WithDefaults(defaults RetryPolicy) RetryPolicy {
	if p.MaxRetries == nil {
		p.MaxRetries = defaults.MaxRetries
	}
	p.InitialDelayMS = orDefault(p.InitialDelayMS, defaults.InitialDelayMS)
	p.BackoffMultiplier = orDefault(p.BackoffMultiplier, defaults.BackoffMultiplier)
	p.MaxDelayMS = orDefault(p.MaxDelayMS, defaults.MaxDelayMS)
	p.Jitter = orDefault(p.Jitter, defaults.Jitter)
	return p
}

// Retries returns the maximum number of retries: the length of the explicit schedule
// if there is one, otherwise MaxRetries.
func (p RetryPolicy) Retries() int {
	switch {
	case len(p.ScheduleSeconds) > 0:
		return len(p.ScheduleSeconds)
	case p.MaxRetries == nil:
		return 0
	}
	return *p.MaxRetries
}

// Delay returns the delay before retry n, counted from 1, and false if there is no
// such retry. The delay is never negative and never overflows, for any values
// of the policy.
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

// AddJitter returns delay with jitter. random must be between 0 and 1.
func (p RetryPolicy) AddJitter(delay time.Duration, random float64) time.Duration {
	if p.Jitter == JitterFull {
		return time.Duration(random * float64(delay))
	}
	const tenth = 10
	return delay + time.Duration(random*float64(delay/tenth))
}

// maxDelay limits a delay, far above the values that Validate accepts.
const maxDelay = 365 * 24 * time.Hour

// span returns n units as a duration between 0 and maxDelay. NaN is 0.
func span(n float64, unit time.Duration) time.Duration {
	if !(n > 0) {
		return 0
	}
	if n >= float64(maxDelay/unit) {
		return maxDelay
	}
	return time.Duration(n) * unit
}

// retryBounds holds the ranges of the fields of a policy, in the units of the
// fields. Zero values are always valid.
type retryBounds struct {
	retries                  int
	minInitial, maxInitial   int
	minMaxDelay, maxMaxDelay int
	maxSchedule              int
}

const maxTerminalStatuses = 50

const (
	hourMS     = 3_600_000
	dayMS      = 24 * hourMS
	daySeconds = 24 * 60 * 60
)

var (
	workRetryBounds     = retryBounds{retries: 25, maxInitial: dayMS, maxMaxDelay: 7 * dayMS, maxSchedule: 7 * daySeconds}
	deliveryRetryBounds = retryBounds{retries: 10, minInitial: 100, maxInitial: 60_000, minMaxDelay: 1000, maxMaxDelay: hourMS, maxSchedule: daySeconds}
)

// Validate returns every fault by its field. Zero fields are valid.
func (p RetryPolicy) Validate() Faults { return p.validate(workRetryBounds) }

func (p RetryPolicy) validate(b retryBounds) Faults {
	var f Faults
	if p.MaxRetries != nil {
		checkRange(&f, "max_retries", *p.MaxRetries, 0, b.retries)
	}
	if p.InitialDelayMS != 0 {
		checkRange(&f, "initial_delay_ms", p.InitialDelayMS, b.minInitial, b.maxInitial)
	}
	if p.MaxDelayMS != 0 {
		checkRange(&f, "max_delay_ms", p.MaxDelayMS, b.minMaxDelay, b.maxMaxDelay)
	}
	if p.MaxDelayMS > 0 && p.MaxDelayMS < p.InitialDelayMS {
		f.Add("max_delay_ms", "%d is less than initial_delay_ms, %d", p.MaxDelayMS, p.InitialDelayMS)
	}
	if m := p.BackoffMultiplier; m != 0 && (m < 1 || m > 10 || math.IsNaN(m)) {
		f.Add("backoff_multiplier", "%g is not between 1 and 10", m)
	}
	checkRange(&f, "schedule_seconds", len(p.ScheduleSeconds), 0, b.retries)
	for i, s := range p.ScheduleSeconds {
		checkRange(&f, fmt.Sprintf("schedule_seconds[%d]", i), s, 0, b.maxSchedule)
	}
	if p.Jitter != "" && p.Jitter != JitterSome && p.Jitter != JitterFull {
		f.Add("jitter", "%q is neither some nor full", p.Jitter)
	}
	checkRange(&f, "terminal_statuses", len(p.TerminalStatuses), 0, maxTerminalStatuses)
	for i, status := range p.TerminalStatuses {
		if status < 300 || status > 599 {
			f.Add(fmt.Sprintf("terminal_statuses[%d]", i), "%d is not a status from 300 to 599", status)
		}
	}
	return f
}
