package schema

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/meter"
	"github.com/eventhook/eventhook/internal/panics"
)

// Schema is a compiled schema. It is safe for concurrent use; validations run one at a time.
type Schema struct {
	compiled *jsonschema.Schema
	mu       sync.Mutex
	patterns patterns
	enumWork int // work of comparing a value with the largest enum
}

// Errors of Validate.
var (
	ErrTooLarge = errors.New("the data cannot be validated: it is not JSON, is too large or is nested too deeply")
	ErrTooMuch  = errors.New("validating the data against the schema takes too much work")
)

// Limits of a validation.
const (
	maxData   = 64 << 10  // bytes of the data
	maxSteps  = 5_000_000 // steps of a validation, about 50 ms
	partSteps = 100       // steps of one unit of work in a part of a schema
	readCost  = 20        // cost of checking and decoding a byte of the data, relative to scanning it
)

// Compile compiles a schema. It returns an error if Check would report a fault.
func Compile(raw json.RawMessage) (*Schema, error) {
	if wrong := checkSize(raw); wrong != "" {
		return nil, errors.New(wrong)
	}
	s, c := &Schema{}, jsonschema.NewCompiler()
	// The library calls this for each part of a schema during compilation. Each part gets a format
	// that counts steps: the library checks the format of a value before it descends.
	c.RegisterVocabulary(&jsonschema.Vocabulary{URL: "https://schema.invalid/steps", Compile: func(ctx *jsonschema.CompilerContext, _ map[string]any) (jsonschema.SchemaExt, error) {
		s.count(ctx.Enqueue(nil))
		return nil, nil //nolint:nilnil // no keyword of its own
	}})
	c.AssertVocabs()
	var err error
	if s.compiled, err = compile(raw, c, &s.patterns); err != nil {
		return nil, err
	}
	return s, nil
}

// count replaces the format of a part of the schema with one that takes steps before a value is
// validated against the part.
func (s *Schema) count(part *jsonschema.Schema) {
	s.enumWork = max(s.enumWork, workOfEnum(part.Enum))
	format, name := part.Format, "counted"
	if format != nil {
		name = format.Name
	}
	part.Format = &jsonschema.Format{Name: name, Validate: func(v any) error {
		comparisons := 1 + s.enumWork // each visited value may be compared with an enum
		s.patterns.use(partSteps * workOfPart(part, v) * comparisons)
		if format == nil {
			return nil
		}
		return format.Validate(v)
	}}
}

// workOfPart estimates the work of validating a value against a part of a schema, without the work in
// the value's members and elements, which are validated against parts of their own. The unit is the
// work for one keyword.
func workOfPart(part *jsonschema.Schema, v any) int {
	const (
		plainKeywords = 4  // keywords that every part may have, such as type and $ref
		bytesPerUnit  = 16 // bytes of a string that are checked by one unit of work
	)
	subschemas := len(part.AllOf) + len(part.AnyOf) + len(part.OneOf) + len(part.DependentSchemas) + len(part.Dependencies)
	work := plainKeywords + subschemas
	switch v := v.(type) {
	case map[string]any:
		namePatterns := len(part.PatternProperties)
		work += len(v) * (1 + namePatterns)
	case []any:
		work += len(v)
		if part.UniqueItems {
			work += uniqueWork(len(v)) * countValues(v)
		}
	case string:
		work += len(v) / bytesPerUnit
	}
	return work
}

// uniqueWork is the work for each value in a list of n elements to find equal elements. The library
// compares the elements of short lists pairwise, and hashes the elements of long lists.
func uniqueWork(n int) int {
	const (
		maxPairwise = 20 // as in the library
		hashWork    = 3
	)
	if n <= maxPairwise {
		return n
	}
	return hashWork
}

// countValues returns the number of values in a value, including the value itself.
func countValues(v any) (n int) {
	n = 1
	switch v := v.(type) {
	case map[string]any:
		for _, member := range v {
			n += countValues(member)
		}
	case []any:
		for _, element := range v {
			n += countValues(element)
		}
	}
	return n
}

// workOfEnum is the work of comparing a value with each element of an enum. A comparison with a string
// is cheap.
func workOfEnum(e *jsonschema.Enum) (work int) {
	if e == nil {
		return 0
	}
	const stringsPerUnit = 64
	stringCount := 0
	for _, v := range e.Values {
		if _, isString := v.(string); isString {
			stringCount++
		} else {
			work++
		}
	}
	return work + stringCount/stringsPerUnit
}

// Validate validates data. It returns "" if the data matches the schema, or otherwise a fault: the
// location in the data and the keyword that failed. The fault quotes no value of the data. The error
// is ErrTooLarge, ErrTooMuch or, if the meter stopped, the meter's error. Invalid JSON is
// ErrTooLarge. A validation takes at most maxSteps.
func (s *Schema) Validate(m *meter.Meter, data []byte) (fault string, err error) {
	if err := m.UseBytes(readCost * min(len(data), maxData)); err != nil {
		return "", err
	}
	if len(data) > maxData || !json.Valid(data) || checkTokens(data) != "" {
		return "", ErrTooLarge
	}
	value := decode(data)
	s.mu.Lock()
	defer s.mu.Unlock()
	limited := meter.New(context.Background(), maxSteps, m) // m checks the caller's context
	s.patterns.meter = limited
	defer func() {
		s.patterns.meter = nil
		limited.Close()
		if recover() != nil {
			if limited.Err() == nil { // otherwise a pattern was stopped at the limit
				panics.Count(panics.Schema)
			}
			fault, err = "", cmp.Or(m.Err(), ErrTooMuch)
		}
	}()
	failure, ok := errors.AsType[*jsonschema.ValidationError](s.compiled.Validate(value))
	if !ok {
		return "", nil
	}
	for len(failure.Causes) > 0 {
		failure = failure.Causes[0]
	}
	place := "data"
	if len(failure.InstanceLocation) > 0 {
		place += "." + strings.Join(failure.InstanceLocation, ".")
	}
	return eventhook.SanitizeLabel(place) + ": " + strings.Join(failure.ErrorKind.KeywordPath(), "."), nil
}
