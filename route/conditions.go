package route

import (
	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/filter"
	"github.com/eventhook/eventhook/internal/panics"
	"github.com/eventhook/eventhook/internal/payload"
)

// conditions are a route's filters other than event types, cheapest first, and its transform.
type conditions struct {
	route      string         // the route's name
	filter     *filter.Filter // may be nil
	expression *expression
	function   string
	transform  *eventhook.Transform
	broken     *problem // the reason if the stored filters cannot be compiled, otherwise nil
}

// compileConditions compiles a route's filters. Check keeps out filters that do not compile. If one
// is stored nevertheless, the route must neither match all events nor silently match none, so the
// actions of the route fail.
func compileConditions(r *eventhook.Route, fields *filter.Fields) (c conditions) {
	defer func() {
		if recover() != nil {
			panics.Count(panics.Route)
			c.broken = &problem{text: "the route's filters cannot be compiled"}
		}
	}()
	c.route, c.function, c.transform = r.Name, r.FilterFunction, r.Transform
	var faults eventhook.Faults
	if filter.IsSet(r.Filter) {
		var wrong eventhook.Faults
		c.filter, wrong = filter.Compile(r.Filter, fields)
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

// memory is the approximate size of the compiled filters in bytes.
func (c *conditions) memory() (bytes int) {
	if c.filter != nil {
		bytes += c.filter.Memory()
	}
	if c.expression != nil {
		bytes += c.expression.memory
	}
	return bytes
}

// readsBody reports whether the filters can read the body. In a structured CloudEvent, its
// attributes are in the body, too.
func (c *conditions) readsBody(contentType string) bool {
	isInBody := payload.IsStructured(contentType)
	return c.reads("body") || isInBody && c.reads("cloudevent")
}

// reads reports whether the filters can read a variable, such as body. A script can read all
// variables.
func (c *conditions) reads(name string) bool {
	return c.function != "" || c.filter != nil && c.filter.Reads(name+".") || c.expression != nil && c.expression.reads(name)
}

// runsScripts reports whether the route runs a script.
func (c *conditions) runsScripts() bool { return c.function != "" || c.transform != nil }

// match reports whether an event matches. If this cannot be decided, match returns a problem. If
// reasons is not nil and the event does not match, match adds the reasons.
func (c *conditions) match(s *subject, reasons *filter.Reasons) (matched bool, p *problem) {
	if c.broken != nil {
		return false, c.broken
	}
	if c.filter != nil {
		matched = c.filter.Holds(&s.Subject, reasons)
		if s.Meter.Err() != nil {
			return false, s.stopped(c.route, "filter")
		}
		if !matched {
			return false, nil
		}
	}
	if c.expression != nil {
		const part = "filter_expression"
		matched, p = c.expression.matches(s, reasons)
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
	matched, p = s.filterFunction(c.function, reasons)
	if stopped := s.stopped(c.route, "filter_function"); stopped != nil {
		return false, stopped
	}
	return matched, p
}
