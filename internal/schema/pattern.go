package schema

import (
	"errors"
	"fmt"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/meter"
	"github.com/eventhook/eventhook/internal/pattern"
)

// Bounds of the regular expressions of a schema.
const (
	mostPatternBytes  = 4096
	mostInstructions  = 10_000  // of all of them
	mostPatternMemory = 2 << 20 // of all of them, in bytes
)

// compiling holds a place for each schema that is compiled at the same time: the compiler takes many times the memory
// of what it makes.
var compiling = make(chan struct{}, 2)

// patterns are the regular expressions of one schema: in pattern, patternProperties and the format regex. The library
// cannot be interrupted, so a check that exceeds its steps panics with ErrTooMuch, and Validate recovers.
type patterns struct {
	compiled             map[string]schemaPattern
	instructions, memory int
	refused              error        // what is too large; nothing is compiled after it
	meter                *meter.Meter // of the check that runs, nil: none does
}

// use takes steps of the check that runs, or ends it.
func (p *patterns) use(steps int) {
	if p.meter.Use(steps) != nil {
		panic(ErrTooMuch)
	}
}

// compileSteps are those of compiling a regular expression that data holds.
const compileSteps = 50_000

// compile implements jsonschema.RegexpEngine.
func (p *patterns) compile(text string) (jsonschema.Regexp, error) {
	limits := pattern.Limits{Bytes: mostPatternBytes, Instructions: pattern.DefaultLimits.Instructions, Memory: mostPatternMemory}
	if p.meter != nil { // the format regex: the text is data
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
	if p.instructions > mostInstructions || p.memory > mostPatternMemory {
		p.refused = fmt.Errorf("the regular expressions are too large: at most %d instructions and %d bytes are allowed for all of a schema", mostInstructions, mostPatternMemory)
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
