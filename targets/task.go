package targets

import "github.com/eventhook/eventhook"

// task makes a task for workers to claim.
type task struct {
	Kind string `json:"task_kind" maxLength:"100" doc:"What its workers know it by."`
	ExecutionSettings
}

func (s *task) Check() (f eventhook.Faults) {
	checkName(&f, "task_kind", s.Kind)
	return append(f, s.ExecutionSettings.Check()...)
}

func (s *task) Compile(Deps) (Effector, error) {
	return s.compile(eventhook.Task, s.Kind)
}
