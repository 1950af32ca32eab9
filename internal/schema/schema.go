// Package schema validates JSON against JSON Schemas of tenants. The memory of a schema and the work
// of a validation are bounded. A schema cannot load other documents.
package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"github.com/eventhook/eventhook"
)

// Limits of a schema. The time to compile a schema grows faster than its size.
const (
	maxSchemaBytes = 32 << 10
	maxSchemaDepth = 64
	maxNumberBytes = 100 // length of a number as text
	maxExponent    = 300 // a number with this exponent has as many digits
)

// Check reports the faults of a schema. An empty schema has no faults.
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
		faults.Add("", "%s", shortened(p.refused.Error()))
		return faults
	}
	return faultsOf(err)
}

func checkSize(raw []byte) string {
	if len(raw) > maxSchemaBytes {
		return fmt.Sprintf("has %d bytes, at most %d are allowed", len(raw), maxSchemaBytes)
	}
	return checkTokens(raw)
}

// checkTokens rejects deep nesting and large numbers, which would take unbounded work. raw must be
// valid JSON.
func checkTokens(raw []byte) string {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	for depth := 0; ; {
		token, err := decoder.Token()
		if err != nil {
			return "" // the end
		}
		switch t := token.(type) {
		case json.Delim:
			if depth++; t == '}' || t == ']' {
				depth -= 2
			}
		case json.Number:
			if !isCheap(t.String()) {
				return fmt.Sprintf("contains the number %s, which has too many digits", shortened(t.String()))
			}
		}
		if depth > maxSchemaDepth {
			return fmt.Sprintf("is nested more than %d deep", maxSchemaDepth)
		}
	}
}

// isCheap reports whether exact arithmetic with a number is cheap.
func isCheap(number string) bool {
	exponent := 0
	if i := strings.IndexAny(number, "eE"); i >= 0 {
		var err error
		if exponent, err = strconv.Atoi(number[i+1:]); err != nil {
			return false
		}
	}
	return len(number) <= maxNumberBytes && exponent >= -maxExponent && exponent <= maxExponent
}

// schemaURL is the base URL of a schema during compilation, to which references are relative.
const schemaURL = "https://schema.invalid/schema"

// noLoader is a loader that loads nothing.
type noLoader struct{}

func (noLoader) Load(string) (any, error) {
	return nil, errors.New("a schema cannot refer to other documents")
}

func compile(raw []byte, c *jsonschema.Compiler, p *patterns) (*jsonschema.Schema, error) {
	compileSlots <- struct{}{}
	defer func() { <-compileSlots }()
	c.UseLoader(noLoader{})
	c.UseRegexpEngine(p.compile)
	if err := c.AddResource(schemaURL, decode(raw)); err != nil {
		return nil, err
	}
	return c.Compile(schemaURL)
}

// decode decodes valid JSON and keeps numbers as written.
func decode(raw []byte) (v any) {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	_ = decoder.Decode(&v) // the caller has checked that it is valid
	return v
}

// faultsOf converts an error of the compiler to faults. A fault has a location if the error has one.
func faultsOf(err error) (faults eventhook.Faults) {
	if err == nil {
		return nil
	}
	if load, ok := errors.AsType[*jsonschema.LoadURLError](err); ok {
		faults.Add("", "%s: %s", shortened(strconv.Quote(load.URL)), load.Err)
		return faults
	}
	if invalid, ok := errors.AsType[*jsonschema.SchemaValidationError](err); ok {
		if whole, ok := errors.AsType[*jsonschema.ValidationError](invalid.Err); ok {
			faults = leafFaults(whole)
			return faults[:min(len(faults), maxFaults)]
		}
	}
	faults.Add("", "is not a JSON Schema: %s", shortened(err.Error()))
	return faults
}

// maxFaults is the maximum number of reported faults.
const maxFaults = 100

// shortened shortens a text that may quote a schema.
func shortened(s string) string {
	const maxText = 200
	return eventhook.Truncate(eventhook.SanitizeText(s), maxText)
}

// leafFaults returns a fault for each cause that has no further cause, at most about maxFaults.
// Messages of the library begin with a location, which leafFaults removes: "at '/type': must be…".
func leafFaults(e *jsonschema.ValidationError) (faults eventhook.Faults) {
	if len(e.Causes) == 0 {
		_, message, _ := strings.Cut(e.Error(), ": ")
		faults.Add(locationOf(e), "%s", shortened(message))
		return faults
	}
	switch e.ErrorKind.(type) {
	case *kind.AnyOf, *kind.OneOf:
		return alternativeFaults(e)
	}
	for _, cause := range e.Causes {
		if len(faults) < maxFaults {
			faults = append(faults, leafFaults(cause)...)
		}
	}
	return faults
}

// alternativeFaults returns the faults of a value that matches no alternative of an anyOf or oneOf.
// If the faults of an alternative are all inside the value, the author meant this alternative, so
// only its faults are returned. Otherwise there is one fault, which joins those of all alternatives.
func alternativeFaults(e *jsonschema.ValidationError) (joined eventhook.Faults) {
	location := locationOf(e)
	var messages []string
	for _, alternative := range e.Causes {
		faults := leafFaults(alternative)
		if !slices.ContainsFunc(faults, func(f eventhook.Fault) bool { return f.Location == location }) {
			return faults
		}
		for _, f := range faults {
			messages = append(messages, f.Message)
		}
	}
	joined.Add(location, "%s", shortened(strings.Join(messages, ", or ")))
	return joined
}

func locationOf(e *jsonschema.ValidationError) string {
	return shortened(strings.Join(e.InstanceLocation, "."))
}
