package route

import (
	"bytes"

	"github.com/eventhook/eventhook"
)

// conditions are what a route asks of an event beside its type, the cheap
// first, and what it makes of it.
type conditions struct {
	pattern    condition // nil for none
	expression *expression
	function   string
	transform  *eventhook.Transform
	broken     *problem // what was stored and cannot be used
}

// compileConditions compiles a route's filters. What cannot be compiled, which
// Check prevents, must neither match everything nor nothing without a word:
// the route then fails its actions.
func compileConditions(r *eventhook.Route, table *fields) (c conditions) {
	defer func() {
		if recover() != nil {
			c.broken = &problem{text: "the route's filters cannot be compiled"}
		}
	}()
	c.function, c.transform = r.FilterFunction, r.Transform
	var faults eventhook.Faults
	if hasFilter(r) {
		var wrong eventhook.Faults
		c.pattern, wrong = compilePattern(r.Filter, table)
		faults.Merge("filter", wrong)
	}
	if r.FilterExpression != "" {
		var wrong eventhook.Faults
		c.expression, wrong = compileExpression(r.FilterExpression)
		faults.Merge("filter_expression", wrong)
	}
	if len(faults) > 0 {
		c.broken = &problem{text: faults[0].Location + ": " + faults[0].Message}
	}
	return c
}

func hasFilter(r *eventhook.Route) bool {
	text := bytes.TrimSpace(r.Filter)
	return len(text) > 0 && string(text) != "null"
}

// areNone reports whether every event of the right type matches as it is.
func (c *conditions) areNone() bool {
	return c.pattern == nil && c.expression == nil && c.function == "" && c.transform == nil && c.broken == nil
}

// runScripts reports whether what tenants wrote is run for it.
func (c *conditions) runScripts() bool { return c.function != "" || c.transform != nil }

// judge reports whether an event matches. A problem says that this cannot be
// told. With a why, what does not hold says so there.
func (c *conditions) judge(s *subject, why *reasons) (bool, *problem) {
	switch {
	case c.broken != nil:
		return false, c.broken
	case c.pattern != nil && !c.pattern.holds(s, why):
		return false, nil
	case c.expression != nil && !c.expression.holds(s, why):
		return false, nil
	case c.function != "":
		return s.filterFunction(c.function, why)
	}
	return true, nil
}
