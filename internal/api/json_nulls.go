package api

import (
	"bytes"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/eventhook/eventhook"
)

const mustNotBeNull = "must not be null"

// nullError reports the locations of nulls in a body that the framework decodes. The
// framework keeps only the text of the error; newProblem converts it back to faults.
type nullError eventhook.Faults

// Error lists the locations, one per line.
func (e nullError) Error() string {
	var b strings.Builder
	b.WriteString(nullsAt)
	for _, f := range e {
		b.WriteString("\n" + f.Location)
	}
	return b.String()
}

// nullsAt is the first line of the text of a nullError.
const nullsAt = "must not be null:"

// checkDecoded returns a nullError if a body has null where its schema forbids it. v
// is a pointer to the type of the body.
func (s *server) checkDecoded(data []byte, v any) error {
	schema := s.bodies[reflect.TypeOf(v)]
	if schema == nil || !bytes.Contains(data, []byte("null")) {
		return nil
	}
	if faults := s.checkNulls(schema, "body", decodeAny(data)); len(faults) > 0 {
		return nullError(faults[:min(len(faults), maxFaults)])
	}
	return nil
}

// bodyOf returns the pointer type of the field Body of an input, nil without the
// field.
func bodyOf(request reflect.Type) reflect.Type {
	if field, ok := request.FieldByName("Body"); ok {
		return reflect.PointerTo(field.Type)
	}
	return nil
}

// checkNulls reports every null where the schema of an optional member does not
// allow it. The framework treats null as an absent member, but a client that sends
// {"is_enabled": null} may mean false. Merge patches are checked after the merge, so
// that null still resets a member to its default.
func (s *server) checkNulls(schema *huma.Schema, at string, value any) (faults eventhook.Faults) {
	schema = s.resolved(schema)
	switch v := value.(type) {
	case []any:
		for i := range v {
			if schema.Items != nil {
				faults = append(faults, s.checkNulls(schema.Items, at+"["+strconv.Itoa(i)+"]", v[i])...)
			}
		}
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			member, isNamed := memberSchema(schema, name)
			if v[name] != nil {
				if member != nil {
					faults = append(faults, s.checkNulls(member, at+"."+name, v[name])...)
				}
				continue
			}
			// The framework reports nulls of required and unknown members.
			if isOptional := isNamed && !slices.Contains(schema.Required, name); isOptional && !s.allowsNull(member) {
				faults.Add(readable(at+"."+name), mustNotBeNull)
			}
		}
	}
	return faults
}

// resolved returns the schema to which a reference points, or the schema itself.
func (s *server) resolved(schema *huma.Schema) *huma.Schema {
	if schema.Ref != "" {
		return s.schemas.SchemaFromRef(schema.Ref)
	}
	return schema
}

// memberSchema returns the schema of a member of an object, nil if there is none,
// and whether the schema of the object names the member.
func memberSchema(schema *huma.Schema, name string) (member *huma.Schema, isNamed bool) {
	if member := schema.Properties[name]; member != nil {
		return member, true
	}
	member, _ = schema.AdditionalProperties.(*huma.Schema)
	return member, false
}

func (s *server) allowsNull(schema *huma.Schema) bool {
	schema = s.resolved(schema)
	isAny := schema.Type == "" && len(schema.OneOf)+len(schema.AnyOf)+len(schema.AllOf) == 0
	return schema.Nullable || isAny || slices.ContainsFunc(slices.Concat(schema.OneOf, schema.AnyOf), s.allowsNull)
}
