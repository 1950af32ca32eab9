package route

import (
	"fmt"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/eventhook/eventhook"
)

// Bounds of a filter.
const (
	mostFilterBytes      = 64 << 10
	mostFilterDepth      = 20
	mostFilterConditions = 500
)

// compilePattern makes a condition of a filter as it is written. Whatever is
// wrong with it is told at once, located from the filter on; then there is no
// condition.
func compilePattern(text []byte, table *fields) (condition, eventhook.Faults) {
	c := patternCompiler{fields: table}
	if wrong := checkJSON(text); wrong != "" {
		c.faults.Add("", "%s", wrong)
		return nil, c.faults
	}
	all := c.object(gjson.ParseBytes(text), "", 1)
	if len(c.faults) > 0 {
		return nil, c.faults
	}
	return all, nil
}

// patternCompiler walks through a filter and notes what is wrong.
type patternCompiler struct {
	fields     *fields
	faults     eventhook.Faults
	conditions int
	regexps    int
	full       bool
}

// object compiles a filter object: paths, $and, $or and $not, all of which
// must hold.
func (c *patternCompiler) object(r gjson.Result, at string, depth int) allOf {
	if !r.IsObject() {
		c.faults.Add(at, "must be an object of paths and conditions")
		return nil
	}
	if depth > mostFilterDepth {
		c.faults.Add(at, "nests deeper than %d", mostFilterDepth)
		return nil
	}
	var all allOf
	c.members(r, at, func(name string, value gjson.Result) {
		if part := c.member(name, value, join(at, name), depth); part != nil {
			all = append(all, part)
		}
	})
	return all
}

func (c *patternCompiler) member(name string, value gjson.Result, at string, depth int) condition {
	switch name {
	case "$and":
		return allOf(c.list(value, at, depth))
	case "$or":
		return anyOf(c.list(value, at, depth))
	case "$not":
		return notAll{denied: c.object(value, at, depth+1), text: shortened(value.Raw, 200)}
	}
	if strings.HasPrefix(name, "$") {
		c.faults.Add(at, "is not one of $and, $or, $not, nor a path")
		return nil
	}
	n, err := c.fields.number(name)
	if err != nil {
		c.faults.Add(at, "%s", messageOf(err))
		return nil
	}
	return fieldTest{field: n, path: name, tests: c.tests(value, at)}
}

// list compiles the filters of $and and $or.
func (c *patternCompiler) list(r gjson.Result, at string, depth int) (list []condition) {
	if !r.IsArray() || len(r.Array()) == 0 {
		c.faults.Add(at, "must be a list of filters")
		return nil
	}
	for i, one := range r.Array() {
		list = append(list, c.object(one, fmt.Sprintf("%s[%d]", at, i), depth+1))
	}
	return list
}

// members calls f for each member, and notes what stands there twice. Beyond
// the number of conditions it calls nobody.
func (c *patternCompiler) members(r gjson.Result, at string, f func(name string, value gjson.Result)) {
	seen := map[string]bool{}
	r.ForEach(func(name, value gjson.Result) bool {
		if c.conditions++; c.conditions > mostFilterConditions {
			if !c.full {
				c.full = true
				c.faults.Add("", "has more than %d conditions", mostFilterConditions)
			}
			return false
		}
		if seen[name.Str] {
			c.faults.Add(join(at, name.Str), "is given twice")
			return true
		}
		seen[name.Str] = true
		f(name.Str, value)
		return true
	})
}

func join(at, name string) string {
	name = eventhook.Label(name)
	if at == "" {
		return name
	}
	return at + "." + name
}
