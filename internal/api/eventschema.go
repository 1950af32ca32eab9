package api

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

// checkEventSchema says what is wrong with the JSON Schema of an event type;
// none is fine. Nothing is loaded for it from anywhere.
func checkEventSchema(raw json.RawMessage) (faults eventhook.Faults) {
	if len(raw) == 0 {
		return nil
	}
	if len(raw) > mostSchemaBytes {
		faults.Add("schema", "has %d bytes, at most %d are allowed", len(raw), mostSchemaBytes)
		return faults
	}
	if wrong := checkSchemaTokens(raw); wrong != "" {
		faults.Add("schema", "%s", wrong)
		return faults
	}
	faults.Merge("schema", schemaFaults(compileSchema(raw)))
	return faults
}

// checkSchemaTokens refuses what would make a compiler work without bounds.
func checkSchemaTokens(raw []byte) string {
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

func compileSchema(raw []byte) error {
	c := jsonschema.NewCompiler()
	c.UseLoader(nowhere{})
	if err := c.AddResource(here, decodeAny(raw)); err != nil {
		return err
	}
	_, err := c.Compile(here)
	return err
}

// schemaFaults tells what a compiler has found wrong, where it knows the place
// there.
func schemaFaults(err error) (faults eventhook.Faults) {
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
