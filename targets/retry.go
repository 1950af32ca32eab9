package targets

import "github.com/eventhook/eventhook"

// TargetRetry says when requests of a target that failed are made again: the members of a
// source's retry.
type TargetRetry struct {
	MaxRetries        *int    `json:"max_retries,omitempty" minimum:"0" maximum:"25" doc:"3 by default; 0: never."`
	InitialDelayMS    int     `json:"initial_delay_ms,omitempty" minimum:"0" maximum:"86400000" doc:"Before the first retry. 0: the default, 10000."`
	BackoffMultiplier float64 `json:"backoff_multiplier,omitempty" minimum:"0" maximum:"10" doc:"Of the delay from one retry to the next, 1 to 10. 0: the default, 3."`
	MaxDelayMS        int     `json:"max_delay_ms,omitempty" minimum:"0" maximum:"604800000" doc:"The longest delay, not less than the initial one. 0: the default, 3600000."`
	ScheduleSeconds   []int   `json:"schedule_seconds,omitempty" maxItems:"25" example:"[30,120,600]" doc:"The delays one by one; while it is there, the rest of the policy is kept and does not count."`
}

// Policy returns the policy, in which zero values mean the default; of nil all do.
func (r *TargetRetry) Policy() eventhook.RetryPolicy {
	if r == nil {
		return eventhook.RetryPolicy{}
	}
	return eventhook.RetryPolicy{MaxRetries: r.MaxRetries, InitialDelayMS: r.InitialDelayMS, BackoffMultiplier: r.BackoffMultiplier,
		MaxDelayMS: r.MaxDelayMS, ScheduleSeconds: r.ScheduleSeconds}
}
