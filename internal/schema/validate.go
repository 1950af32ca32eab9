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

// Schema is a schema, compiled. Safe for concurrent use, one check at a time.
type Schema struct {
	compiled *jsonschema.Schema
	mu       sync.Mutex
	patterns patterns
	enum     int // the work of the largest list of values
}

// Why data was not held against a schema.
var (
	ErrTooLarge = errors.New("the data is too large, or nested too deep, to be checked")
	ErrTooMuch  = errors.New("the schema takes too much work to be checked")
)

// Bounds of a check.
const (
	mostData  = 64 << 10  // bytes
	mostSteps = 5_000_000 // about 50 ms
	partSteps = 100       // of a value that is checked against a part of a schema
)

// Compile compiles a schema that Check finds no fault with.
func Compile(raw json.RawMessage) (*Schema, error) {
	if wrong := checkSize(raw); wrong != "" {
		return nil, errors.New(wrong)
	}
	s, c := &Schema{}, jsonschema.NewCompiler()
	// Every part of a schema passes here when it is compiled, and gets a format
	// that counts: what the library looks at before it goes on.
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

// count has each value that is held against a part of the schema cost what the
// part may do next with it.
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

// uniqueWork is how much is done with each value in a list of n elements to find elements that are equal. The library
// compares the elements of short lists with each other, and the hashes of those of long ones.
func uniqueWork(n int) int {
	if n <= 20 {
		return n
	}
	return 3
}

// weight is how many values a value holds, itself included.
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

// workOfEnum is what it costs to compare with each of a list: texts are quick.
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

// Validate says where data does not fit the schema and which keyword says so, ""
// if it does; it quotes no value. The error is ErrTooLarge, ErrTooMuch or, when
// the meter stopped, the meter's. One check takes mostSteps at most.
func (s *Schema) Validate(m *meter.Meter, data []byte) (fault string, err error) {
	if err := m.UseBytes(20 * min(len(data), mostData)); err != nil {
		return "", err
	}
	if len(data) > mostData || !json.Valid(data) || checkTokens(data) != "" {
		return "", ErrTooLarge
	}
	value := decode(data)
	s.mu.Lock()
	defer s.mu.Unlock()
	check := meter.New(context.Background(), mostSteps, m) // m knows the caller's context
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
