package filter

import (
	"fmt"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/meter"
)

// test is an operator with its operand. A missing field fails every test but $exists: false; so
// $ne, $nin and $not also require a value.
type test struct {
	passes passes
	wanted string // the operator and the operand, for users
}

// passes reports whether a value passes a test. It takes steps before it reads large values. If the
// meter stops, the result is undefined.
type passes func(m *meter.Meter, v *gjson.Result) bool

// operator creates a test from an operand, or describes the fault of the operand.
type operator func(r gjson.Result) (test passes, wrong string)

var operators = map[string]operator{
	"$eq":         equality(true),
	"$ne":         equality(false),
	"$gt":         ordering(func(order int) bool { return order > 0 }),
	"$gte":        ordering(func(order int) bool { return order >= 0 }),
	"$lt":         ordering(func(order int) bool { return order < 0 }),
	"$lte":        ordering(func(order int) bool { return order <= 0 }),
	"$in":         membership(true),
	"$nin":        membership(false),
	"$contains":   contains,
	"$startsWith": affix(strings.HasPrefix),
	"$endsWith":   affix(strings.HasSuffix),
	"$exists":     exists,
}

const operatorNames = "$eq, $ne, $gt, $gte, $lt, $lte, $in, $nin, $contains, $startsWith, $endsWith, $exists, $regex, $not"

func equality(want bool) operator {
	return func(r gjson.Result) (passes, string) {
		o := newOperand(r)
		return func(m *meter.Meter, v *gjson.Result) bool {
			return v.Exists() && o.equals(m, v) == want
		}, ""
	}
}

func membership(want bool) operator {
	return func(r gjson.Result) (passes, string) {
		if !r.IsArray() {
			return nil, "must be a list of values"
		}
		list := newOperand(r).elements
		return func(m *meter.Meter, v *gjson.Result) bool {
			return v.Exists() && isIn(m, list, v) == want
		}, ""
	}
}

func ordering(want func(order int) bool) operator {
	return func(r gjson.Result) (passes, string) {
		o := newOperand(r)
		if !o.isOrdered() {
			return nil, "must be a number or a string"
		}
		return func(m *meter.Meter, v *gjson.Result) bool {
			order, ok := o.order(m, v)
			return ok && want(order)
		}, ""
	}
}

func affix(has func(s, affix string) bool) operator {
	return func(r gjson.Result) (passes, string) {
		if r.Type != gjson.String {
			return nil, "must be a string"
		}
		return func(_ *meter.Meter, v *gjson.Result) bool { return v.Type == gjson.String && has(v.Str, r.Str) }, ""
	}
}

// contains tests for a substring of a string or an element of an array.
func contains(r gjson.Result) (passes, string) {
	o := newOperand(r)
	return func(m *meter.Meter, v *gjson.Result) bool {
		if v.Type == gjson.String {
			return m.UseBytes(len(v.Str)) == nil && o.kind == gjson.String && strings.Contains(v.Str, o.text)
		}
		found := false
		if v.IsArray() && m.UseBytes(comparePasses*len(v.Raw)) == nil {
			v.ForEach(func(_, element gjson.Result) bool {
				found = o.equals(m, &element)
				return !found && m.Use(elementSteps) == nil
			})
		}
		return found
	}, ""
}

func exists(r gjson.Result) (passes, string) {
	if r.Type != gjson.True && r.Type != gjson.False {
		return nil, "must be true or false"
	}
	want := r.Type == gjson.True
	return func(_ *meter.Meter, v *gjson.Result) bool { return v.Exists() == want }, ""
}

func (c *compiler) regex(r gjson.Result) (passes, string) {
	if r.Type != gjson.String {
		return nil, "must be a regular expression in a string"
	}
	re, wrong := compileRegexp(r.Str)
	if wrong != "" {
		return nil, wrong
	}
	if c.memory += re.Memory(); c.memory > maxRegexpMemory {
		return nil, fmt.Sprintf("makes the regular expressions of the filter too large: at most %d bytes are allowed in compiled form", maxRegexpMemory)
	}
	return func(m *meter.Meter, v *gjson.Result) bool {
		return v.Type == gjson.String && len(v.Str) <= maxSearchedBytes && re.Match(m, v.Str)
	}, ""
}

// tests compiles the condition of a path. It is a value that must be equal, a list with an element
// that must be equal, or an object of operators that must all pass.
func (c *compiler) tests(r gjson.Result, at string) []test {
	if r.IsObject() {
		return c.operators(r, at, true)
	}
	name, text := "$eq", r.Raw
	if r.IsArray() {
		name, text = "$in", "one of "+r.Raw
	}
	passes, _ := operators[name](r)
	return []test{{passes: passes, wanted: eventhook.TruncateWithEllipsis(text, 200)}}
}

func (c *compiler) operators(r gjson.Result, at string, mayNegate bool) (tests []test) {
	if len(r.Map()) == 0 {
		c.faults.Add(at, "has no operator")
	}
	c.members(r, at, func(name string, value gjson.Result) {
		t, wrong := c.operator(name, value, join(at, name), mayNegate)
		if wrong != "" {
			c.faults.Add(join(at, name), "%s", wrong)
			return
		}
		t.wanted = name + " " + eventhook.TruncateWithEllipsis(value.Raw, 200)
		tests = append(tests, t)
	})
	return tests
}

func (c *compiler) operator(name string, value gjson.Result, at string, mayNegate bool) (t test, wrong string) {
	switch {
	case name == "$not" && mayNegate:
		return c.negation(value, at)
	case name == "$exists" && !mayNegate:
		return t, "is not allowed in $not: use $exists with the opposite value instead"
	case name == "$regex":
		if c.regexps++; c.regexps > maxRegexps {
			return t, fmt.Sprintf("is one regular expression too many, at most %d are allowed", maxRegexps)
		}
		t.passes, wrong = c.regex(value)
		return t, wrong
	}
	build, ok := operators[name]
	switch {
	case ok:
		t.passes, wrong = build(value)
		return t, wrong
	case strings.HasPrefix(name, "$"):
		return t, "is not one of " + operatorNames
	}
	return t, "is not an operator: to compare with an object, use $eq; to test its members, use a longer path"
}

// negation passes for a field that exists and fails at least one of the tests.
func (c *compiler) negation(r gjson.Result, at string) (t test, wrong string) {
	if !r.IsObject() {
		return t, "must be an object of operators"
	}
	tests := c.operators(r, at, false)
	t.passes = func(m *meter.Meter, v *gjson.Result) bool {
		if !v.Exists() {
			return false
		}
		for i := range tests {
			if m.Use(testSteps) != nil || !tests[i].passes(m, v) {
				return true
			}
		}
		return false
	}
	return t, ""
}
