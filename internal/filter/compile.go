package filter

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/eventhook/eventhook"
)

// Limits of a filter.
const (
	maxBytes      = 64 << 10
	maxDepth      = 20
	maxNesting    = 100 // nesting of lists and objects in the JSON; each level takes time to parse
	maxConditions = 500
)

// compiler compiles a filter and collects its faults.
type compiler struct {
	fields     *Fields
	faults     eventhook.Faults
	conditions int
	regexps    int
	memory     int  // size of the regular expressions in bytes
	isFull     bool // there are too many conditions; already reported
}

// object compiles a filter object. Its members are paths, $and, $or and $not, and all must hold.
func (c *compiler) object(r gjson.Result, at string, depth int) allOf {
	if !r.IsObject() {
		c.faults.Add(at, "must be an object of paths and conditions")
		return nil
	}
	if depth > maxDepth {
		c.faults.Add(at, "nests deeper than %d", maxDepth)
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

func (c *compiler) member(name string, value gjson.Result, at string, depth int) condition {
	switch name {
	case "$and":
		return allOf(c.list(value, at, depth))
	case "$or":
		return anyOf(c.list(value, at, depth))
	case "$not":
		return notAll{denied: c.object(value, at, depth+1), text: eventhook.TruncateWithEllipsis(value.Raw, 200)}
	}
	if strings.HasPrefix(name, "$") {
		c.faults.Add(at, "is not one of $and, $or, $not, nor a path")
		return nil
	}
	p, err := c.fields.place(name)
	if err != nil {
		c.faults.Add(at, "%s", messageOf(err))
		return nil
	}
	return fieldTest{place: p, path: name, tests: c.tests(value, at)}
}

// list compiles the filters of $and and $or.
func (c *compiler) list(r gjson.Result, at string, depth int) (list []condition) {
	if !r.IsArray() || len(r.Array()) == 0 {
		c.faults.Add(at, "must be a list of filters")
		return nil
	}
	for i, element := range r.Array() {
		list = append(list, c.object(element, fmt.Sprintf("%s[%d]", at, i), depth+1))
	}
	return list
}

// members calls f for each member and reports repeated names. It stops at the maximum number of
// conditions.
func (c *compiler) members(r gjson.Result, at string, f func(name string, value gjson.Result)) {
	seen := map[string]bool{}
	r.ForEach(func(name, value gjson.Result) bool {
		if c.conditions++; c.conditions > maxConditions {
			if !c.isFull {
				c.isFull = true
				c.faults.Add("", "has more than %d conditions", maxConditions)
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

// messageOf returns the text of an error for users.
func messageOf(err error) string {
	if e, ok := errors.AsType[*eventhook.Error](err); ok {
		return e.Message
	}
	return err.Error()
}

func join(at, name string) string {
	name = eventhook.SanitizeLabel(name)
	if at == "" {
		return name
	}
	return at + "." + name
}

// checkJSON describes the fault of a filter as JSON, or returns "" if it is valid.
func checkJSON(text []byte) string {
	if len(text) > maxBytes {
		return fmt.Sprintf("is %d bytes long, at most %d are allowed", len(text), maxBytes)
	}
	if depth, _ := shape(text); depth > maxNesting {
		return fmt.Sprintf("contains lists or objects that nest deeper than %d", maxNesting)
	}
	err := json.Unmarshal(text, new(json.RawMessage))
	if at, ok := errors.AsType[*json.SyntaxError](err); ok {
		before := text[:min(max(int(at.Offset)-1, 0), len(text))]
		return fmt.Sprintf("is not JSON: line %d, column %d: %s", bytes.Count(before, []byte("\n"))+1, len(before)-bytes.LastIndexByte(before, '\n'), at)
	}
	if err != nil {
		return "is not JSON"
	}
	return ""
}

// shape returns the maximum nesting of lists and objects in a text and the approximate number of its
// values. The text need not be valid JSON.
func shape(text []byte) (maxDepth, values int) {
	depth, inString := 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"':
			inString = !inString
		case inString && c == '\\':
			i++
		case inString:
		case c == '[' || c == '{':
			depth++
			maxDepth, values = max(maxDepth, depth), values+1
		case c == ',' || c == ':':
			values++
		case c == ']' || c == '}':
			depth--
		}
	}
	return maxDepth, values
}
