package eventhook

import (
	"encoding/json"
	"fmt"
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
	// SecretsLost says that the secrets of its targets are sealed with a key
	// that is gone: they are not in Targets.
	SecretsLost bool
	Version     int64 // grows with every change
	CreatedAt   time.Time
	UpdatedAt   time.Time
}

// Transform makes what targets get of an event's body.
type Transform struct {
	Type       string `json:"type" yaml:"type"`             // jmespath or javascript
	Expression string `json:"expression" yaml:"expression"` // of JavaScript the source of function transform(event)
	Retry      bool   `json:"retry,omitempty" yaml:"retry"` // have it tried again with the event when it fails
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

// MaxTargets is how many targets a route can have.
const MaxTargets = 50

// MaxRoutes is how many routes a source can have: each of its events is held
// against all of them.
const MaxRoutes = 1000

// MaxSourceTargets is how many targets all routes of a source together can
// have: one event may make something of each.
const MaxSourceTargets = 5000

// DefaultQueue is the queue of targets that name none.
const DefaultQueue = "default"

// DefaultMaxAttempts is how often an execution is claimed before it is dead:
// the first time and the retries of ExecutionRetry.
const DefaultMaxAttempts = 4

// TargetKeyTTL is how long a workflow or task target remembers its key.
const TargetKeyTTL = 24 * time.Hour

// Validate reports every fault by its field, but for what is wrong with the
// filters and the transform themselves, see package route, and with each
// target, see package targets. It changes nothing.
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

// CheckPattern says what is wrong with an event type pattern, "" if nothing:
// an exact type, a prefix with ".*", or "*".
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
