package targets

import "github.com/eventhook/eventhook"

// TargetRetry is the retry policy of a target, with the members of a source's policy.
type TargetRetry struct {
	MaxRetries        *int    `json:"max_retries,omitempty" minimum:"0" maximum:"25" doc:"How often to retry. The default is 3; 0 means never."`
	InitialDelayMS    int     `json:"initial_delay_ms,omitempty" minimum:"0" maximum:"86400000" doc:"The delay before the first retry. 0 means the default, 10000."`
	BackoffMultiplier float64 `json:"backoff_multiplier,omitempty" minimum:"0" maximum:"10" doc:"The factor by which the delay grows from one retry to the next, 1 to 10. 0 means the default, 3."`
	MaxDelayMS        int     `json:"max_delay_ms,omitempty" minimum:"0" maximum:"604800000" doc:"The maximum delay, at least the initial delay. 0 means the default, 3600000."`
	ScheduleSeconds   []int   `json:"schedule_seconds,omitempty" maxItems:"25" example:"[30,120,600]" doc:"The delay before each retry, in order. If it is set, the other members of the policy that set delays are stored but ignored."`
	TerminalStatuses  []int   `json:"terminal_statuses,omitempty" maxItems:"50" example:"[400,401,403,404,422]" doc:"Response statuses after which the delivery is dead without a retry."`
}

// Policy returns the policy, in which a zero value means the default. The policy of a nil
// TargetRetry is zero.
func (r *TargetRetry) Policy() eventhook.RetryPolicy {
	if r == nil {
		return eventhook.RetryPolicy{}
	}
	return eventhook.RetryPolicy{MaxRetries: r.MaxRetries, InitialDelayMS: r.InitialDelayMS, BackoffMultiplier: r.BackoffMultiplier,
		MaxDelayMS: r.MaxDelayMS, ScheduleSeconds: r.ScheduleSeconds, TerminalStatuses: r.TerminalStatuses}
}
