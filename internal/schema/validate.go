package schema

import (
	"encoding/json"
	"errors"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/eventhook/eventhook"
)

// Schema is a schema, compiled. Safe for concurrent use, one check at a time.
type Schema struct {
	compiled *jsonschema.Schema
	mu       sync.Mutex
	left     int // work that the check which runs may still do
	enum     int // the work of the largest list of values
}

// Why data was not held against a schema.
var (
	ErrTooLarge = errors.New("the data is too large, or nested too deep, to be checked")
	ErrTooMuch  = errors.New("the schema takes too much work to be checked")
)

// Bounds of a check.
const (
	mostData  = 64 << 10 // bytes
	mostSteps = 50_000   // values held against a part of a schema, about
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
	s.compiled, err = compile(raw, c)
	return s, err
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
		case string:
			work += len(v) / 16
		}
		if s.left -= work * (1 + s.enum); s.left < 0 {
			panic(ErrTooMuch)
		}
		if format == nil {
			return nil
		}
		return format.Validate(v)
	}}
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

// Fault says where data does not fit the schema and which keyword says so, ""
// if it does; it quotes no value. The error is ErrTooLarge or ErrTooMuch.
func (s *Schema) Fault(data []byte) (fault string, err error) {
	if len(data) > mostData || !json.Valid(data) || checkTokens(data) != "" {
		return "", ErrTooLarge
	}
	value := decode(data)
	s.mu.Lock()
	defer s.mu.Unlock()
	defer func() {
		if recover() != nil {
			fault, err = "", ErrTooMuch
		}
	}()
	s.left = mostSteps
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
	return eventhook.Label(place) + ": " + strings.Join(wrong.ErrorKind.KeywordPath(), "."), nil
}
