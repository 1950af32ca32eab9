package targets

import (
	"cmp"
	"time"

	"github.com/eventhook/eventhook"
)

// workflow creates a workflow for workers to claim, or starts one on a cluster of Temporal.
type workflow struct {
	Kind string `json:"workflow_kind" maxLength:"100" doc:"The kind of the workflow. Workers choose their handler by it. For the engine temporal, the type of the workflow."`
	ExecutionSettings
	ExecutionTimeout int `json:"execution_timeout_seconds,omitempty" minimum:"0" maximum:"315360000" doc:"For the engine temporal: after how many seconds Temporal ends the workflow, with all its runs. 0 means never, the default."`
	RunTimeout       int `json:"run_timeout_seconds,omitempty" minimum:"0" maximum:"315360000" doc:"For the engine temporal: after how many seconds Temporal ends a run of the workflow. 0 means never, the default."`
	EngineSettings
}

func (s *workflow) Check() (f eventhook.Faults) {
	const maxSeconds = 10 * 365 * 24 * 60 * 60
	checkName(&f, "workflow_kind", s.Kind)
	f = append(f, s.ExecutionSettings.Check()...)
	f = append(f, s.EngineSettings.Check()...)
	checkRange(&f, "execution_timeout_seconds", s.ExecutionTimeout, 0, maxSeconds)
	checkRange(&f, "run_timeout_seconds", s.RunTimeout, 0, maxSeconds)
	if s.usesTemporal() {
		checkUnfit(&f, "is not a setting of the engine temporal", setting{"max_attempts", s.MaxAttempts != nil},
			setting{"priority", s.Priority != 0}, setting{"idempotency_ttl_seconds", s.KeyTTL != nil})
		return f
	}
	checkUnfit(&f, "needs the engine temporal",
		setting{"execution_timeout_seconds", s.ExecutionTimeout != 0}, setting{"run_timeout_seconds", s.RunTimeout != 0})
	return f
}

func (s *workflow) Compile(d Deps) (Effector, error) {
	if !s.usesTemporal() {
		return s.ExecutionSettings.compile(eventhook.Workflow, s.Kind)
	}
	t, err := s.EngineSettings.compile(d, s.IdempotencyKeySettings)
	if err != nil {
		return nil, err
	}
	t.start = &WorkflowStart{Type: s.Kind, Queue: cmp.Or(s.Queue, eventhook.DefaultQueue),
		ExecutionTimeout: time.Duration(s.ExecutionTimeout) * time.Second, RunTimeout: time.Duration(s.RunTimeout) * time.Second}
	return t, nil
}
