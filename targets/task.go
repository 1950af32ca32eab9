package targets

import "github.com/eventhook/eventhook"

// task creates a task for workers to claim.
type task struct {
	Kind string `json:"task_kind" maxLength:"100" doc:"The kind of the task. Workers choose their handler by it."`
	ExecutionSettings
}

func (s *task) Check() (f eventhook.Faults) {
	checkName(&f, "task_kind", s.Kind)
	return append(f, s.ExecutionSettings.Check()...)
}

func (s *task) Compile(Deps) (Effector, error) {
	return s.compile(eventhook.Task, s.Kind)
}
