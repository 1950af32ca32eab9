package eventhook

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// Route selects events of a source and sends them to its targets. An event matches
// if all conditions hold. Routes are evaluated by descending Priority, then by age,
// oldest first.
type Route struct {
	ID               RouteID
	TenantID         TenantID
	SourceID         SourceID
	Name             string
	Priority         int
	IsEnabled        bool
	FilterEventTypes []string
	Filter           json.RawMessage // a pattern for the payload; nil without one
	FilterExpression string          // CEL
	FilterFunction   string          // JavaScript
	Transform        *Transform      // nil without one
	Targets          []Target
	// SecretsLost means that the targets' secrets are sealed with a key that the
	// gateway does not have; Targets does not contain them.
	SecretsLost bool
	Version     int64 // incremented by every update
	CreatedAt   time.Time
	UpdatedAt   time.Time
}

// Transform converts an event's body into the input of the targets.
type Transform struct {
	Type       string `json:"type" yaml:"type"`             // jmespath or javascript
	Expression string `json:"expression" yaml:"expression"` // JMESPath, or JavaScript that defines function transform(event)
	Retry      bool   `json:"retry,omitempty" yaml:"retry"` // retry the event if the transform fails
}

// The types of transforms.
const (
	TransformJMESPath   = "jmespath"
	TransformJavaScript = "javascript"
)

// RoutePriority assigns a priority to a route.
type RoutePriority struct {
	ID       RouteID
	Priority int
}

// MaxTargets is the maximum number of targets of a route.
const MaxTargets = 50

// MaxRoutes is the maximum number of routes of a source. Each event of the source is
// matched with all of them.
const MaxRoutes = 1000

// MaxSourceTargets is the maximum number of targets of all routes of a source. One
// event can have one effect per target.
const MaxSourceTargets = 5000

// DefaultQueue is the queue of a target that does not name a queue.
const DefaultQueue = "default"

// DefaultMaxAttempts is the maximum number of claims of an execution: the first
// attempt and the retries of ExecutionRetry. After them the execution is dead.
const DefaultMaxAttempts = 4

// TargetKeyTTL is how long a workflow or task target remembers its idempotency keys, unless
// it has an idempotency_ttl_seconds.
const TargetKeyTTL = 24 * time.Hour

// Validate returns every fault by its field. It does not compile filters and
// transforms (see package route) or targets (see package targets), and it changes
// nothing.
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
	switch {
	case len(r.Targets) == 0:
		f.Add("targets", "at least one is required")
	case len(r.Targets) > MaxTargets:
		f.Add("targets", "%d, at most %d are allowed", len(r.Targets), MaxTargets)
	}
	return f
}

// CheckPattern says why an event type pattern is invalid, "" if it is valid: an
// exact type, a prefix with ".*", or "*".
func CheckPattern(p string) string {
	switch {
	case p == "" || len(p) > MaxKeyBytes || !isText(p):
		return fmt.Sprintf("%q must be 1 to %d bytes of text", SanitizeLabel(p), MaxKeyBytes)
	case p != "*" && p != ".*" && !strings.Contains(strings.TrimSuffix(p, ".*"), "*"):
		return ""
	case p != "*":
		return fmt.Sprintf("%q must be an exact type, a prefix such as payment.*, or *", p)
	}
	return ""
}
