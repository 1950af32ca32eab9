// Package filter asks whether an event is one that somebody wants: of a type
// that patterns take, and with fields that pass a filter such as
// {"body.amount":{"$gte":1000}}. It says why an event does not match, and where a
// filter is wrong. It is pure; what is compiled is safe for concurrent use, and
// an event that does not match costs no memory.
package filter

import (
	"bytes"
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/eventhook/eventhook"
)

// Filter is a filter, compiled.
type Filter struct {
	all    condition
	memory int
}

// IsSet reports whether a text is a filter at all: not empty, and not null.
func IsSet(text []byte) bool {
	text = bytes.TrimSpace(text)
	return len(text) > 0 && string(text) != "null"
}

// Compile compiles a filter as it is written, over fields that it shares with
// others. Whatever is wrong with it is told at once, located by the path in it;
// then there is no filter.
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

// Holds reports whether an event passes. If it does not and why is not nil, Holds
// adds the reasons to why. When the subject's meter stops, Holds returns false:
// the caller has to ask the meter.
func (f *Filter) Holds(s *Subject, why *Reasons) bool {
	return f.all.holds(s, why) && s.Meter.Err() == nil
}

// valueMemory is about how many bytes a value takes that events are compared with.
const valueMemory = 150

// Memory is about how many bytes the filter holds.
func (f *Filter) Memory() int { return f.memory }

// Reads reports whether the filter looks at paths with a prefix.
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
