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
)

// Schema is a compiled schema. It is safe for concurrent use; validations run one at a time.
type Schema struct {
	compiled *jsonschema.Schema
	mu       sync.Mutex
	patterns patterns
	enum     int // the work of comparing with the largest enum
}

// Errors of Validate.
var (
	ErrTooLarge = errors.New("the data is too large, or nested too deep, to be checked")
	ErrTooMuch  = errors.New("the schema takes too much work to be checked")
)

// Limits of a validation.
const (
	maxData   = 64 << 10  // bytes
	maxSteps  = 5_000_000 // about 50 ms
	partSteps = 100       // for validating a value against a part of a schema
)

// Compile compiles a schema in which Check finds no fault.
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

// count replaces the format of a part of the schema. The new format takes the steps of everything
// that the part can do with a value, before it does it.
func (s *Schema) count(part *jsonschema.Schema) {
	s.enum = max(s.enum, workOfEnum(part.Enum))
	format, parts := part.Format, 4+len(part.AllOf)+len(part.AnyOf)+len(part.OneOf)+len(part.DependentSchemas)+len(part.Dependencies)
	name := "counted"
	if format != nil {
		name = format.Name
	}
	part.Format = &jsonschema.Format{Name: name, Validate: func(v any) error {
		work := parts
		switch v := v.(type) {
		case map[string]any:
			work += len(v) * (1 + len(part.PatternProperties))
		case []any:
			work += len(v)
			if part.UniqueItems {
				work += uniqueWork(len(v)) * weight(v)
			}
		case string:
			work += len(v) / 16
		}
		s.patterns.use(partSteps * work * (1 + s.enum))
		if format == nil {
			return nil
		}
		return format.Validate(v)
	}}
}

// uniqueWork is the work for each value in a list of n elements to find equal elements. The library
// compares the elements of short lists pairwise, and hashes the elements of long lists.
func uniqueWork(n int) int {
	if n <= 20 {
		return n
	}
	return 3
}

// weight is the number of values in a value, itself included.
func weight(v any) (n int) {
	n = 1
	switch v := v.(type) {
	case map[string]any:
		for _, member := range v {
			n += weight(member)
		}
	case []any:
		for _, element := range v {
			n += weight(element)
		}
	}
	return n
}

// workOfEnum is the work of comparing a value with each element of an enum. Strings are cheap.
func workOfEnum(e *jsonschema.Enum) (work int) {
	if e == nil {
		return 0
	}
	texts := 0
	for _, v := range e.Values {
		if _, isText := v.(string); isText {
			texts++
		} else {
			work++
		}
	}
	return work + texts/64
}

// Validate reports where data does not match the schema and which keyword failed, "" if data
// matches. The report quotes no value. The error is ErrTooLarge, ErrTooMuch or, if the meter
// stopped, the meter's. A validation takes at most maxSteps.
func (s *Schema) Validate(m *meter.Meter, data []byte) (fault string, err error) {
	if err := m.UseBytes(20 * min(len(data), maxData)); err != nil {
		return "", err
	}
	if len(data) > maxData || !json.Valid(data) || checkTokens(data) != "" {
		return "", ErrTooLarge
	}
	value := decode(data)
	s.mu.Lock()
	defer s.mu.Unlock()
	check := meter.New(context.Background(), maxSteps, m) // m knows the caller's context
	s.patterns.meter = check
	defer func() {
		s.patterns.meter = nil
		check.Close()
		if recover() != nil {
			fault, err = "", cmp.Or(m.Err(), ErrTooMuch)
		}
	}()
	wrong, ok := errors.AsType[*jsonschema.ValidationError](s.compiled.Validate(value))
	if !ok {
		return "", nil
	}
	for len(wrong.Causes) > 0 {
		wrong = wrong.Causes[0]
	}
	place := "data"
	if len(wrong.InstanceLocation) > 0 {
		place += "." + strings.Join(wrong.InstanceLocation, ".")
	}
	return eventhook.SanitizeLabel(place) + ": " + strings.Join(wrong.ErrorKind.KeywordPath(), "."), nil
}
