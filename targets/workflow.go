package targets

import "github.com/eventhook/eventhook"

// workflow creates a workflow for workers to claim.
type workflow struct {
	Kind string `json:"workflow_kind" maxLength:"100" doc:"The kind of the workflow. Workers choose their handler by it."`
	ExecutionSettings
}

func (s *workflow) Check() (f eventhook.Faults) {
	checkName(&f, "workflow_kind", s.Kind)
	return append(f, s.ExecutionSettings.Check()...)
}

func (s *workflow) Compile(Deps) (Effector, error) {
	return s.compile(eventhook.Workflow, s.Kind)
}
