// Package schema holds JSON against the JSON Schemas that tenants write: within
// bounds of memory and work, and without loading anything from anywhere.
package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/eventhook/eventhook"
)

// Bounds of a schema: compiling one takes time that grows faster than it does.
const (
	mostSchemaBytes = 32 << 10
	mostSchemaDepth = 64
	mostNumberBytes = 100 // of a number
	mostExponent    = 300 // which stands for as many digits
)

// Check says what is wrong with a schema; none is fine.
func Check(raw json.RawMessage) (faults eventhook.Faults) {
	if len(raw) == 0 {
		return nil
	}
	if wrong := checkSize(raw); wrong != "" {
		faults.Add("", "%s", wrong)
		return faults
	}
	var p patterns
	_, err := compile(raw, jsonschema.NewCompiler(), &p)
	if p.refused != nil {
		faults.Add("", "%s", readable(p.refused.Error()))
		return faults
	}
	return faultsOf(err)
}

func checkSize(raw []byte) string {
	if len(raw) > mostSchemaBytes {
		return fmt.Sprintf("has %d bytes, at most %d are allowed", len(raw), mostSchemaBytes)
	}
	return checkTokens(raw)
}

// checkTokens refuses what would make a compiler work without bounds.
func checkTokens(raw []byte) string {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	for depth := 0; ; {
		token, err := decoder.Token()
		if err != nil {
			return "" // the end: it has been read as JSON
		}
		switch t := token.(type) {
		case json.Delim:
			if depth++; t == '}' || t == ']' {
				depth -= 2
			}
		case json.Number:
			if !isModest(t.String()) {
				return fmt.Sprintf("holds the number %s, which has too many digits", readable(t.String()))
			}
		}
		if depth > mostSchemaDepth {
			return fmt.Sprintf("is nested more than %d deep", mostSchemaDepth)
		}
	}
}

// isModest reports whether a number can be computed with exactly at little cost.
func isModest(number string) bool {
	exponent := 0
	if i := strings.IndexAny(number, "eE"); i >= 0 {
		var err error
		if exponent, err = strconv.Atoi(number[i+1:]); err != nil {
			return false
		}
	}
	return len(number) <= mostNumberBytes && exponent >= -mostExponent && exponent <= mostExponent
}

// here is where a schema is while it is compiled; references within it are
// relative to that.
const here = "https://schema.invalid/schema"

// nowhere is a loader that loads nothing.
type nowhere struct{}

func (nowhere) Load(string) (any, error) {
	return nil, errors.New("a schema cannot refer to others")
}

func compile(raw []byte, c *jsonschema.Compiler, p *patterns) (*jsonschema.Schema, error) {
	compiling <- struct{}{}
	defer func() { <-compiling }()
	c.UseLoader(nowhere{})
	c.UseRegexpEngine(p.compile)
	if err := c.AddResource(here, decode(raw)); err != nil {
		return nil, err
	}
	return c.Compile(here)
}

// decode reads JSON with its numbers as they are written; nil if it is none.
func decode(raw []byte) (v any) {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	_ = decoder.Decode(&v) // it has been read as JSON
	return v
}

// faultsOf tells what a compiler has found wrong, where it knows the place
// there.
func faultsOf(err error) (faults eventhook.Faults) {
	if err == nil {
		return nil
	}
	if load, ok := errors.AsType[*jsonschema.LoadURLError](err); ok {
		faults.Add("", "%s: %s", readable(strconv.Quote(load.URL)), load.Err)
		return faults
	}
	if invalid, ok := errors.AsType[*jsonschema.SchemaValidationError](err); ok {
		if whole, ok := errors.AsType[*jsonschema.ValidationError](invalid.Err); ok {
			leaves(whole, &faults)
			return faults
		}
	}
	faults.Add("", "is not a JSON Schema: %s", readable(err.Error()))
	return faults
}

// mostFaults bounds what is told.
const mostFaults = 100

// readable is a text that may hold what somebody wrote, in bearable length.
func readable(s string) string {
	const most = 200
	return eventhook.Truncate(eventhook.SanitizeText(s), most)
}

// leaves are the causes that have no cause of their own: "at '/type': must be…".
func leaves(e *jsonschema.ValidationError, faults *eventhook.Faults) {
	for _, cause := range e.Causes {
		leaves(cause, faults)
	}
	if len(e.Causes) == 0 && len(*faults) < mostFaults {
		_, message, _ := strings.Cut(e.Error(), ": ")
		faults.Add(readable(strings.Join(e.InstanceLocation, ".")), "%s", readable(message))
	}
}
