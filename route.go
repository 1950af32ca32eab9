package eventhook

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Route says which of a source's events go where. All conditions must hold;
// a higher Priority comes first, then the older route.
type Route struct {
	ID               RouteID
	TenantID         TenantID
	SourceID         SourceID
	Name             string
	Priority         int
	IsEnabled        bool
	FilterEventTypes []string
	Filter           json.RawMessage // a pattern over the payload; nil for none
	FilterExpression string          // CEL
	FilterFunction   string          // JavaScript
	Transform        *Transform      // of what targets get; nil for none
	Targets          []Target
	Version          int64 // grows with every change
	CreatedAt        time.Time
	UpdatedAt        time.Time
}

// Transform makes what targets get of an event's body.
type Transform struct {
	Type       string `json:"type" yaml:"type"`             // jmespath or javascript
	Expression string `json:"expression" yaml:"expression"` // of JavaScript the source of function transform(event)
}

// The types of transforms.
const (
	TransformJMESPath   = "jmespath"
	TransformJavaScript = "javascript"
)

// RoutePriority is a route's new place in the order.
type RoutePriority struct {
	ID       RouteID
	Priority int
}

// The target types.
const (
	TargetWorkflow = "workflow"
	TargetTask     = "task"
	TargetPromise  = "promise"
)

// TargetTypes are the target types that exist.
var TargetTypes = []string{TargetWorkflow, TargetTask, TargetPromise}

// Target is one thing a route does. Which fields apply depends on Type.
type Target struct {
	Type string `json:"type" yaml:"type"`

	// Workflow and task.
	WorkflowKind string `json:"workflow_kind,omitempty" yaml:"workflow_kind"`
	TaskKind     string `json:"task_kind,omitempty" yaml:"task_kind"`
	Queue        string `json:"queue,omitempty" yaml:"queue"`
	MaxAttempts  int    `json:"max_attempts,omitempty" yaml:"max_attempts"`

	// All three: the key under which the target is made, or found, once.
	IdempotencyKeyPath   string `json:"idempotency_key_path,omitempty" yaml:"idempotency_key_path"`
	IdempotencyKeyPrefix string `json:"idempotency_key_prefix,omitempty" yaml:"idempotency_key_prefix"`

	// Promise. Resolve nil means true; with ErrorPath, an event in which that
	// path exists rejects the promise with what is there.
	Resolve   *bool  `json:"resolve,omitempty" yaml:"resolve"`
	ValuePath string `json:"value_path,omitempty" yaml:"value_path"`
	ErrorPath string `json:"error_path,omitempty" yaml:"error_path"`
	OnMissing string `json:"on_missing,omitempty" yaml:"on_missing"`
}

// What a promise target does when nobody has made its promise yet.
const (
	OnMissingHold = "hold" // keep the outcome until the promise is made
	OnMissingFail = "fail" // fail the action, and retry with the event
)

// MaxRoutes is how many routes a source can have: each of its events is held
// against all of them.
const MaxRoutes = 1000

// DefaultQueue is the queue of targets that name none.
const DefaultQueue = "default"

// DefaultMaxAttempts is how often an execution is claimed before it is dead:
// the first time and the retries of ExecutionRetry.
const DefaultMaxAttempts = 4

// TargetKeyTTL is how long a workflow or task target remembers its key.
const TargetKeyTTL = 24 * time.Hour

// Validate reports every fault by its field, but for what is wrong with the
// filters and the transform themselves; see package route. It changes nothing.
func (r Route) Validate() Faults {
	var f Faults
	checkName(&f, r.Name)
	checkRange(&f, "priority", r.Priority, -1_000_000, 1_000_000)
	checkLength(&f, "filter_event_types", r.FilterEventTypes, 100)
	for i, p := range r.FilterEventTypes {
		if wrong := CheckPattern(p); wrong != "" {
			f.Add(fmt.Sprintf("filter_event_types[%d]", i), "%s", wrong)
		}
	}
	for _, code := range []struct{ location, text string }{{"filter_expression", r.FilterExpression}, {"filter_function", r.FilterFunction}} {
		if !isText(code.text) {
			f.Add(code.location, "must be UTF-8 without NUL")
		}
	}
	const most = 50
	switch {
	case len(r.Targets) == 0:
		f.Add("targets", "at least one is required")
	case len(r.Targets) > most:
		f.Add("targets", "%d, at most %d are allowed", len(r.Targets), most)
	}
	for i, t := range r.Targets {
		f.Merge(fmt.Sprintf("targets[%d]", i), t.Validate())
	}
	return f
}

// CheckPattern says what is wrong with an event type pattern, "" if nothing:
// an exact type, a prefix with ".*", or "*".
func CheckPattern(p string) string {
	switch {
	case p == "" || len(p) > MaxKeyBytes || !isText(p):
		return fmt.Sprintf("%q must be 1 to %d bytes of text", Label(p), MaxKeyBytes)
	case p != "*" && p != ".*" && !strings.Contains(strings.TrimSuffix(p, ".*"), "*"):
		return ""
	case p != "*":
		return fmt.Sprintf("%q must be an exact type, a prefix such as payment.*, or *", p)
	}
	return ""
}

// Validate reports every fault by its field. It changes nothing.
func (t Target) Validate() Faults {
	var f Faults
	if !slices.Contains(TargetTypes, t.Type) {
		f.Add("type", "%q is not one of %s", t.Type, strings.Join(TargetTypes, ", "))
		return f
	}
	execution := t.Type != TargetPromise
	t.only(&f, t.Type == TargetWorkflow, "workflow_kind", t.WorkflowKind, checkKind)
	t.only(&f, t.Type == TargetTask, "task_kind", t.TaskKind, checkKind)
	if t.Queue != "" || !execution {
		t.only(&f, execution, "queue", t.Queue, checkKind)
	}
	switch {
	case execution:
		checkRange(&f, "max_attempts", t.MaxAttempts, 0, 100)
	case t.MaxAttempts != 0:
		f.Add("max_attempts", "is not for %s targets", t.Type)
	}
	t.only(&f, !execution, "value_path", t.ValuePath, checkOptionalPath)
	t.only(&f, !execution, "error_path", t.ErrorPath, checkOptionalPath)
	if t.OnMissing != "" {
		t.only(&f, !execution, "on_missing", t.OnMissing, checkOnMissing)
	}
	if execution && t.Resolve != nil {
		f.Add("resolve", "is for promise targets only")
	}
	if t.Type == TargetPromise && t.IdempotencyKeyPath == "" {
		f.Add("idempotency_key_path", "is required: it names the promise")
	}
	checkOptionalPath(&f, "idempotency_key_path", t.IdempotencyKeyPath)
	if t.IdempotencyKeyPrefix != "" && (t.IdempotencyKeyPath == "" || !isText(t.IdempotencyKeyPrefix) || len(t.IdempotencyKeyPrefix) > 100) {
		f.Add("idempotency_key_prefix", "needs idempotency_key_path, and at most 100 bytes of text")
	}
	return f
}

// only checks a field where it applies and refuses it elsewhere.
func (t Target) only(f *Faults, applies bool, location, value string, check func(*Faults, string, string)) {
	switch {
	case applies:
		check(f, location, value)
	case value != "":
		f.Add(location, "is not for %s targets", t.Type)
	}
}

func checkKind(f *Faults, location, v string) {
	if v == "" || len(v) > 100 || !isText(v) {
		f.Add(location, "must be 1 to 100 bytes of text")
	}
}

func checkOptionalPath(f *Faults, location, v string) {
	if v != "" {
		checkPath(f, location, v)
	}
}

func checkOnMissing(f *Faults, location, v string) {
	if v != OnMissingHold && v != OnMissingFail {
		f.Add(location, "%q is not one of hold, fail", v)
	}
}
