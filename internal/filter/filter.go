// Package filter decides whether an event matches event type patterns and a filter such as
// {"body.amount":{"$gte":1000}}. It explains why an event does not match, and locates faults in a
// filter. The package performs no I/O. Compiled filters are safe for concurrent use, and evaluating
// a filter that does not match allocates no memory.
package filter

import (
	"bytes"
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/eventhook/eventhook"
)

// Filter is a compiled filter.
type Filter struct {
	all    condition
	memory int
}

// IsSet reports whether a text contains a filter: it is not empty and not null.
func IsSet(text []byte) bool {
	text = bytes.TrimSpace(text)
	return len(text) > 0 && string(text) != "null"
}

// Compile compiles a filter and adds its fields to a set, which several filters can share. If the
// filter has faults, Compile returns a nil Filter and every fault, located by its path in the
// filter.
func Compile(text []byte, fields *Fields) (*Filter, eventhook.Faults) {
	c := compiler{fields: fields}
	if wrong := checkJSON(text); wrong != "" {
		c.faults.Add("", "%s", wrong)
		return nil, c.faults
	}
	all := c.object(gjson.ParseBytes(text), "", 1)
	if len(c.faults) > 0 {
		return nil, c.faults
	}
	_, values := shape(text)
	return &Filter{all, len(text) + values*valueMemory + c.memory}, nil
}

// Holds reports whether an event matches. If it does not and why is not nil, Holds adds the reasons
// to why. If the subject's meter stops, Holds returns false, and the caller must check the meter.
func (f *Filter) Holds(s *Subject, why *Reasons) bool {
	return f.all.holds(s, why) && s.Meter.Err() == nil
}

// valueMemory is the approximate size of a value in a compiled filter, in bytes.
const valueMemory = 150

// Memory returns the approximate size of the filter in bytes.
func (f *Filter) Memory() int { return f.memory }

// Reads reports whether the filter reads a path that begins with prefix.
func (f *Filter) Reads(prefix string) bool { return reads(f.all, prefix) }

func reads(c condition, prefix string) bool {
	read := func(part condition) bool { return reads(part, prefix) }
	switch c := c.(type) {
	case allOf:
		return slices.ContainsFunc(c, read)
	case anyOf:
		return slices.ContainsFunc(c, read)
	case notAll:
		return read(c.denied)
	case fieldTest:
		return strings.HasPrefix(c.path, prefix)
	}
	return false
}
