package route

import (
	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/filter"
	"github.com/eventhook/eventhook/internal/payload"
)

// conditions are what a route asks of an event beside its type, the cheap
// first, and what it makes of it.
type conditions struct {
	route      string         // its name
	pattern    *filter.Filter // nil for none
	expression *expression
	function   string
	transform  *eventhook.Transform
	broken     *problem // what was stored and cannot be used
}

// compileConditions compiles a route's filters. What cannot be compiled, which
// Check prevents, must neither match everything nor nothing without a word:
// the route then fails its actions.
func compileConditions(r *eventhook.Route, fields *filter.Fields) (c conditions) {
	defer func() {
		if recover() != nil {
			c.broken = &problem{text: "the route's filters cannot be compiled"}
		}
	}()
	c.route, c.function, c.transform = r.Name, r.FilterFunction, r.Transform
	var faults eventhook.Faults
	if filter.IsSet(r.Filter) {
		var wrong eventhook.Faults
		c.pattern, wrong = filter.Compile(r.Filter, fields)
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

// memory is about how many bytes the compiled filters hold.
func (c *conditions) memory() (bytes int) {
	if c.pattern != nil {
		bytes += c.pattern.Memory()
	}
	if c.expression != nil {
		bytes += c.expression.memory
	}
	return bytes
}

// readBody reports whether the filters read the body of an event with a
// content type. A CloudEvent may be in it.
func (c *conditions) readBody(contentType string) bool {
	isInBody := payload.IsStructured(contentType)
	return c.read("body") || isInBody && c.read("cloudevent")
}

// read reports whether the filters read what has this name in paths and
// expressions.
func (c *conditions) read(name string) bool {
	return c.function != "" || c.pattern != nil && c.pattern.Reads(name+".") || c.expression != nil && c.expression.reads(name)
}

// runScripts reports whether what tenants wrote is run for it.
func (c *conditions) runScripts() bool { return c.function != "" || c.transform != nil }

// judge reports whether an event matches. A problem says that this cannot be
// told. With a why, what does not hold says so there.
func (c *conditions) judge(s *subject, why *filter.Reasons) (matched bool, p *problem) {
	if c.broken != nil {
		return false, c.broken
	}
	if c.pattern != nil {
		matched = c.pattern.Holds(&s.Subject, why)
		if s.Meter.Err() != nil {
			return false, s.stopped(c.route, "filter")
		}
		if !matched {
			return false, nil
		}
	}
	if c.expression != nil {
		const part = "filter_expression"
		matched, p = c.expression.holds(s, why)
		if s.Meter.Err() != nil {
			return false, s.stopped(c.route, part)
		}
		if p != nil {
			return false, p.of(c.route, part)
		}
		if !matched {
			return false, nil
		}
	}
	if c.function == "" {
		return true, nil
	}
	matched, p = s.filterFunction(c.function, why)
	if stopped := s.stopped(c.route, "filter_function"); stopped != nil {
		return false, stopped
	}
	return matched, p
}
