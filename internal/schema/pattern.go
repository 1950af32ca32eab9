package schema

import (
	"errors"
	"fmt"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/meter"
	"github.com/eventhook/eventhook/internal/pattern"
)

// Limits of the regular expressions of a schema.
const (
	maxPatternBytes  = 4096
	maxInstructions  = 10_000  // instructions of all regular expressions together
	maxPatternMemory = 2 << 20 // bytes of all regular expressions together
)

// compileSlots limits how many schemas are compiled concurrently: the compiler needs many times the
// memory of its result.
var compileSlots = make(chan struct{}, 2)

// patterns compiles and holds the regular expressions of the keywords pattern and patternProperties
// of one schema. It also checks data with the format regex. The library cannot be interrupted, so a
// validation that exceeds its steps panics with ErrTooMuch, and Validate recovers.
type patterns struct {
	compiled             map[string]schemaPattern
	instructions, memory int
	refused              error        // set if the schema is too large; no more patterns are compiled then
	meter                *meter.Meter // of the running validation, nil if none runs
}

// use takes steps of the running validation, or panics with ErrTooMuch.
func (p *patterns) use(steps int) {
	if p.meter.Use(steps) != nil {
		panic(ErrTooMuch)
	}
}

// compileSteps is the number of steps for compiling a regular expression in the data.
const compileSteps = 50_000

// compile implements jsonschema.RegexpEngine.
func (p *patterns) compile(text string) (jsonschema.Regexp, error) {
	limits := pattern.Limits{Bytes: maxPatternBytes, Instructions: pattern.DefaultLimits.Instructions, Memory: maxPatternMemory}
	if p.meter != nil { // during a validation the text is data of the format regex
		p.use(compileSteps)
		_, err := pattern.Compile(text, limits)
		return nil, err
	}
	known, ok := p.compiled[text]
	switch {
	case ok:
		return known, nil
	case p.refused != nil:
		return nil, p.refused
	}
	compiled, err := pattern.Compile(text, limits)
	if tooLarge, ok := errors.AsType[*pattern.SizeError](err); ok {
		p.refused = fmt.Errorf("the regular expression %q %w", eventhook.Truncate(text, 50), tooLarge)
	}
	if err != nil {
		return nil, err
	}
	p.instructions += compiled.Instructions()
	p.memory += compiled.Memory()
	if p.instructions > maxInstructions || p.memory > maxPatternMemory {
		p.refused = fmt.Errorf("the regular expressions of the schema are too large: at most %d instructions and %d bytes are allowed in total", maxInstructions, maxPatternMemory)
		return nil, p.refused
	}
	if p.compiled == nil {
		p.compiled = map[string]schemaPattern{}
	}
	p.compiled[text] = schemaPattern{compiled, p}
	return p.compiled[text], nil
}

// schemaPattern is a regular expression of a schema.
type schemaPattern struct {
	*pattern.Pattern
	of *patterns
}

// MatchString implements jsonschema.Regexp.
func (p schemaPattern) MatchString(text string) bool {
	matched := p.Match(p.of.meter, text)
	if p.of.meter.Err() != nil {
		panic(ErrTooMuch)
	}
	return matched
}
